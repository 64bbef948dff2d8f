"""Embeddings of encoders with one sequence: BERT and what grew from it."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import Embed, LayerNorm, sinusoids, truncated_normal
from etc_jax.layers.dropout import Dropout
from etc_jax.ops import chunked_loss


def positions_of(example_ids: jax.Array, real_only: bool) -> jax.Array:
    """The position of each token in its example, from 0.

    Padding inside an example does not end it.

    Args:
      example_ids: int `[b, n]`; 0 is padding.
      real_only: padding is not counted, and has position -1 (RoBERTa); otherwise the
        first example of a row counts from the start of the row (BERT), whatever stands
        before it.

    Returns:
      int32 `[b, n]`.
    """
    n = example_ids.shape[1]
    real = example_ids > 0
    # The number of each real token among those of its row, from 0.
    seen = jnp.cumsum(real, axis=1, dtype=jnp.int32) - 1
    # [b, n]: the example of the token before, or of the last one before padding; 0
    # before the first one.
    index = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), example_ids.shape)
    last = jax.lax.cummax(jnp.where(real, index, 0), axis=1)
    last = jnp.take_along_axis(example_ids, last, axis=1)
    before = jnp.pad(last[:, :-1], ((0, 0), (1, 0)))
    starts = real & (example_ids != before)
    if real_only:
        count = seen
    else:
        count = index
        # The first example counts from place 0, not from its own first token.
        starts &= seen > 0
    # [b, n]: the count at which the example of each token starts.
    first = jax.lax.cummax(jnp.where(starts, count, 0), axis=1)
    return jnp.where(real, count - first, -1) if real_only else count - first


class TokenEmbeddings(nn.Module):
    """Tokens + types + absolute positions, with dropout and norm.

    Attributes:
      vocab_size, num_types, num_positions: rows of the tables.
      embed_dim: width.
      position_offset: row of position 0; that before it is padding's, if there is one.
      stddev: of the tables' truncated normal.
      dropout_rate: after the norm, or before it.
      epsilon: of the norm.
      dropout_first: before the norm.
      scale: of the tokens' rows.
      position_kind: "learnt", by their table; "sinusoidal", see `sinusoids`; others
        are not given here.
    """

    vocab_size: int
    num_types: int
    num_positions: int
    embed_dim: int
    position_offset: int
    stddev: float
    dropout_rate: float
    epsilon: float
    dropout_first: bool = False
    scale: float = 1.0
    position_kind: str = "learnt"
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32

    def setup(self):
        # setup, not compact: the output layer shares the token table.
        def table(rows: int) -> Embed:
            init = truncated_normal(self.stddev)
            return Embed(rows, self.embed_dim, embedding_init=init, dtype=self.dtype)

        self.token_embedder = table(self.vocab_size)
        self.segment_embedder = table(self.num_types)
        if self.position_kind == "learnt":
            self.position_embedder = table(self.num_positions)
        self.embed_norm = LayerNorm(self.epsilon, self.dtype)
        self.dropout = Dropout(self.dropout_rate)

    def __call__(self, tokens, example_ids, types=None, positions=None) -> jax.Array:
        """Embeds a batch.

        Args:
          tokens: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding.
          types: int `[b, n]`; None: 0.
          positions: int `[b, n]` from 0; None: by `positions_of`.

        Returns:
          `[b, n, e]`.
        """
        if types is None:
            types = jnp.zeros_like(tokens)
        if positions is None:
            # An offset means rows for padding: positions are those of real tokens then.
            positions = positions_of(example_ids, self.position_offset > 0)
        # [b, n] -> [b, n, e]
        x = self.token_embedder(tokens) * self.scale + self.segment_embedder(types)
        if self.position_kind == "learnt":
            # Padding of position -1 (RoBERTa) has the row before that of position 0.
            x = x + self.position_embedder(positions + self.position_offset)
        elif self.position_kind == "sinusoidal":
            x = x + sinusoids(positions, self.embed_dim).astype(self.dtype)
        if self.dropout_first:
            x = self.dropout(x, deterministic=self.deterministic)
            return self.embed_norm(x)
        return self.dropout(self.embed_norm(x), deterministic=self.deterministic)

    def attend(self, x: jax.Array) -> jax.Array:
        """`[..., e]` -> float32 logits over the vocabulary by the token table."""
        table = self.token_embedder.embedding
        # [..., e] x [e, vocabulary]
        return chunked_loss.logits(x.astype(self.dtype), table.T)
