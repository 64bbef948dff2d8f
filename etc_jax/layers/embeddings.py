"""Input embeddings of the long and the global sequence."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.base.types import Rows
from etc_jax.layers.common import Dense, Embed, LayerNorm, truncated_normal
from etc_jax.layers.dropout import Dropout
from etc_jax.ops import chunked_loss


class EtcEmbeddings(nn.Module):
    """Tokens + types (+ positions) (+ adders), normalised, with dropout.

    The token table, its projection and the type table serve both sequences; position
    tables and norms are separate (official spec; paper, section 3.2 and 4.1).

    Attributes:
      vocab_size, num_types: rows of the token and type tables.
      embed_dim: width of the result.
      embedding_dim: width of the token table; projected when it differs.
      max_positions: rows of each absolute position table; 0 for none.
      stddev: of the tables' truncated normal.
      dropout_rate: after the norm.
      epsilon: of the norm.
    """

    vocab_size: int
    num_types: int
    embed_dim: int
    embedding_dim: int
    max_positions: int
    stddev: float
    dropout_rate: float
    epsilon: float
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32

    def _table(self, rows: int, width: int) -> Embed:
        return Embed(
            rows,
            width,
            embedding_init=truncated_normal(self.stddev),
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )

    def setup(self):
        # setup, not compact: the output layer shares the token table.
        self.token_embedder = self._table(self.vocab_size, self.embedding_dim)
        self.segment_embedder = self._table(self.num_types, self.embed_dim)
        if self.embedding_dim != self.embed_dim:
            # The official spread: of the table's width, not `initializer_range`.
            self.embedding_projection = Dense(
                (self.embed_dim,),
                self.embedding_dim**-0.5,
                self.dtype,
                param_dtype=self.param_dtype,
            )
        if self.max_positions:
            sizes = (self.max_positions, self.embed_dim)
            self.long_position_embedder = self._table(*sizes)
            self.global_position_embedder = self._table(*sizes)
        norm = {"epsilon": self.epsilon, "dtype": self.dtype}
        self.long_embed_norm = LayerNorm(**norm, param_dtype=self.param_dtype)
        self.global_embed_norm = LayerNorm(**norm, param_dtype=self.param_dtype)
        self.dropout = Dropout(self.dropout_rate)

    def _one(self, tokens, types, positions, adder, default_type, side: str):
        # [b, n] -> [b, n, embedding_dim] -> [b, n, e]
        x = self.token_embedder(tokens)
        if self.embedding_dim != self.embed_dim:
            x = self.embedding_projection(x)
        if types is None:
            # The official default, which is not 0 for both.
            types = jnp.full_like(tokens, default_type)
        x = x + self.segment_embedder(types)
        if self.max_positions:
            # [b, n, e] + [b or 1, n, e]
            x = x + self._positions(tokens, positions, side)
        if adder is not None:
            x = x + adder.astype(x.dtype)
        # The adder is normalised with the rest, as in the official code.
        x = getattr(self, f"{side}_embed_norm")(x)
        return self.dropout(x, deterministic=self.deterministic)

    def _positions(self, tokens, positions, side: str):
        length = tokens.shape[-1]
        if positions is None:
            if length > self.max_positions:
                raise ValueError(
                    f"the {side} input has {length} tokens, but max_positions is "
                    f"{self.max_positions}; raise it, or give position ids"
                )
            positions = jnp.arange(length)[None]
        return getattr(self, f"{side}_position_embedder")(positions)

    def __call__(self, tokens: Rows, types: Rows, positions: Rows, adders: Rows):
        """Embeds both sequences.

        Args:
          tokens: `Rows` of int `[b, n]` and `[b, g]`.
          types: `Rows` of token types; None: 1 for long and 0 for global tokens.
          positions: `Rows` of absolute positions; None: 0, 1, ....
          adders: `[b, n, e]` and `[b, g, e]` added before the norm, or None.

        Returns:
          `Rows` of `[b, n, e]` and `[b, g, e]`.

        Raises:
          ValueError: if positions are given to a model that has none, or run out.
        """
        if not self.max_positions and any(p is not None for p in positions):
            raise ValueError(
                "position ids given, but max_positions is 0: this model has no "
                "absolute positions"
            )
        return Rows(
            self._one(tokens.long, types.long, positions.long, adders.long, 1, "long"),
            self._one(
                tokens.global_,
                types.global_,
                positions.global_,
                adders.global_,
                0,
                "global",
            ),
        )

    def attend(self, x: jax.Array) -> jax.Array:
        """`[..., embedding_dim]` -> float32 logits by the token table."""
        table = self.token_embedder.embedding
        # [..., embedding_dim] x [embedding_dim, vocabulary]
        return chunked_loss.logits(x.astype(self.dtype), table.T)
