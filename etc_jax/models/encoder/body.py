"""Encoders of one sequence, and masked tokens.

Their other heads are in `models.encoder.heads`.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.block import Block
from etc_jax.layers.common import ACTIVATIONS, Dense, LayerNorm, Mlp
from etc_jax.layers.encoder import TokenEmbeddings
from etc_jax.layers.self_attention import Pattern, SequenceInputs, drawn
from etc_jax.layers.stack import Period, Stack
from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.family import make_body
from etc_jax.ops import sequence
from etc_jax.ops.chunked_loss import cross_entropy


def _norm(config: EncoderConfig, name: str | None = None) -> LayerNorm:
    return LayerNorm(config.layer_norm_epsilon, config.compute_dtype, name=name)


def make_layer(
    config: EncoderConfig,
    deterministic: bool,
    i: int,
    pattern: Pattern,
    cache_length: int | None = None,
    *,
    norm: Callable[[str], Callable] | None = None,
    attention_options: Mapping[str, Any] = MappingProxyType({}),
    mlp_options: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[], Block]:
    """Makes layer `i` of a run.

    Args:
      config: of the encoder.
      deterministic: no dropout.
      i: number of the layer in its run, for its name.
      pattern: what its tokens see.
      cache_length: as of `SelfAttention`.
      norm: makes a norm, given its name; None: that of BERT.
      attention_options: of `SelfAttention`, in which a family differs from BERT.
      mlp_options: of `Mlp`, likewise.
    """
    c = config

    def attention(name: str) -> nn.Module:
        options = {
            "num_heads": c.num_heads,
            "head_dim": c.attention_head_dim,
            "stddev": c.initializer_range,
            "projection_bias": c.projection_bias,
            "dropout_rate": c.attention_dropout_rate,
            "implementation": c.attention,
            "cache_length": cache_length,
            "deterministic": deterministic,
            "dtype": c.compute_dtype,
        }
        return pattern.module(name=name, **{**options, **attention_options})

    def mlp(name: str) -> Mlp:
        sizes = (c.mlp_dim, c.activation, c.initializer_range, c.compute_dtype)
        return Mlp(*sizes, name=name, **mlp_options)

    return functools.partial(
        Block,
        attention,
        mlp,
        norm or functools.partial(_norm, c),
        c.dropout_rate,
        deterministic=deterministic,
        pre_norm=c.pre_norm,
        name=f"layer_{i}",
    )


class Encoder(nn.Module):
    """The body: tokens to rows.

    Attributes:
      config: sizes and choices.
      deterministic: no dropout.
      with_pooler: there is a map of the first row; see `pooled`.
    """

    config: EncoderConfig
    deterministic: bool = True
    with_pooler: bool = False

    def setup(self):
        c = self.config
        refuse(c)
        self.embeddings = TokenEmbeddings(
            vocab_size=c.vocab_size,
            num_types=c.num_types,
            num_positions=c.num_positions,
            embed_dim=c.embed_dim,
            position_offset=c.position_offset,
            stddev=c.initializer_range,
            dropout_rate=c.dropout_rate,
            epsilon=c.layer_norm_epsilon,
            dropout_first=c.dropout_first,
            scale=c.token_scale,
            position_kind=c.positions,
            deterministic=self.deterministic,
            dtype=c.compute_dtype,
        )
        layers = [
            make_layer(c, self.deterministic, i, pattern)
            for i, pattern in enumerate(c.patterns)
        ]
        # One scan over runs of `patterns`: a scan has one body, and the layers of a run
        # differ in what their tokens see.
        self.stack = Stack(
            functools.partial(Period, tuple(layers), name="period"),
            c.num_layers // len(layers),
            c.scan_layers,
            c.remat_policy,
        )
        # The residual stream of pre-norm layers is not normalised before its end.
        if c.pre_norm:
            self.final_norm = _norm(c)
        if self.with_pooler:
            self.pooler = Dense((c.embed_dim,), c.initializer_range, c.compute_dtype)

    def __call__(
        self,
        tokens: jax.Array,
        example_ids: jax.Array | None = None,
        *,
        types: jax.Array | None = None,
        positions: jax.Array | None = None,
        global_index: jax.Array | None = None,
        random_blocks: jax.Array | None = None,
    ) -> jax.Array:
        """Encodes a batch of any length up to max_length.

        Args:
          tokens: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other; None: one example a row.
          types: token types, int `[b, n]`; None: 0.
          positions: int `[b, n]` from 0; None: those of each token in its example, see
            `layers.encoder.positions_of`.
          global_index: int `[b, g]`, where the global tokens of a Longformer stand, no
            place twice, -1 for none; None: no token is global.
          random_blocks: int `[layers, heads or 1, drawing blocks, num_random_blocks]`
            see `block_sparse.attend`; None: as the config says.

        Returns:
          `[b, n, embed_dim]` in the compute dtype.

        Raises:
          ValueError: if the shapes do not fit the config.
        """
        if tokens.ndim != 2:
            raise ValueError(f"tokens has shape {tokens.shape}, expected [batch, n]")
        n = tokens.shape[1]
        longest = self.config.position_limit
        if longest is not None and n > longest and positions is None:
            raise ValueError(
                f"the input has {n} tokens, but max_length is {longest}; cut it, or "
                "stretch the positions"
            )
        reads = frozenset().union(*(p.reads for p in self.config.patterns))
        optional = {"global_index": global_index, "random_blocks": random_blocks}
        for name, value in optional.items():
            if value is not None and name not in reads:
                raise ValueError(
                    f"{name} is given, which the attention of a "
                    f"{type(self.config).__name__} of this kind does not read; leave "
                    "it out"
                )
        if example_ids is None:
            example_ids = jnp.ones_like(tokens, jnp.int32)
        # [b, n] -> [b, n, e]
        x = self.embeddings(tokens, example_ids, types, positions)
        self.sow("intermediates", "embedded", x)
        per_layer = None
        if random_blocks is None:
            sizes = self.config.num_layers, self.config.num_heads
            random_blocks = drawn(self.config.patterns, n, *sizes, self.deterministic)
        if random_blocks is not None:
            runs = self.config.num_layers // len(self.config.patterns)
            # [layers, ...] -> [runs, layers of a run, ...]
            per_layer = random_blocks.reshape(runs, -1, *random_blocks.shape[1:])
        inputs = SequenceInputs(example_ids, global_index)
        if "positions" in reads:
            inputs = inputs._replace(positions=positions)
        x = self.finish(self.stack(x, inputs, per_layer))
        # Heads call `pooled` on their own; `init` of the encoder alone makes it too.
        if self.with_pooler and self.is_initializing():
            self.pooled(x)
        return x

    def finish(self, x: jax.Array) -> jax.Array:
        """What follows the last layer: `[b, n, e]` -> the same shape."""
        return self.final_norm(x) if self.config.pre_norm else x

    def pooled(self, x: jax.Array) -> jax.Array:
        """BERT's output for a whole sequence: rows `[b, n, e]` -> `[b, e]`."""
        # [b, n, e] -> [b, e]
        return jnp.tanh(self.pooler(x[:, 0]))

    def vocabulary_logits(self, x: jax.Array) -> jax.Array:
        """`[..., embed_dim]` -> float32 logits by the token table."""
        return self.embeddings.attend(x)


class EncoderForMaskedLm(nn.Module):
    """The encoder with logits over the vocabulary, by the table of its tokens.

    Attributes:
      config: of the encoder.
      deterministic: no dropout.
      with_pooler: the encoder has one, which this head does not read.
      with_next_sentence: there is BERT's second head; see `next_sentence_logits`.
    """

    config: EncoderConfig
    deterministic: bool = True
    with_pooler: bool = False
    with_next_sentence: bool = False

    def setup(self):
        c = self.config
        pooler = self.with_pooler or self.with_next_sentence
        self.encoder = make_body(c, self.deterministic, with_pooler=pooler)
        self.mlm_dense = Dense((c.embed_dim,), c.initializer_range, c.compute_dtype)
        self.mlm_norm = _norm(c)
        # Logits are products with the token table, so the bias is no Dense layer's.
        self.mlm_bias = self.param("mlm_bias", nn.initializers.zeros, (c.vocab_size,))
        if self.with_next_sentence:
            self.next_sentence = Dense((2,), c.initializer_range, jnp.float32)

    def _features(self, x: jax.Array) -> jax.Array:
        # [..., e] -> [..., e], in the order of BERT's head: map, activation, norm.
        return self.mlm_norm(ACTIVATIONS[self.config.activation](self.mlm_dense(x)))

    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """float32 logits `[b, n, vocabulary]`; arguments as of `Encoder`."""
        x = self.encoder(tokens, example_ids, **inputs)
        if self.with_next_sentence and self.is_initializing():
            self.next_sentence(self.encoder.pooled(x))
        # [b, n, e] x [e, vocabulary] -> float32 [b, n, vocabulary]
        logits = self.encoder.vocabulary_logits(self._features(x))
        return logits + self.mlm_bias[None, None]

    def next_sentence_logits(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """float32 `[b, 2]`: the second part follows the first, or is any other."""
        x = self.encoder(tokens, example_ids, **inputs)
        # [b, n, e] -> [b, e] -> [b, 2]
        return self.next_sentence(self.encoder.pooled(x))

    def masked_losses(self, tokens, example_ids, positions, targets):
        """See `objectives.masked_lm.MaskedModel`."""
        x = self.encoder(tokens, example_ids)
        # [b, n, e] -> [b, p, e]: the table is multiplied with masked places alone.
        x = sequence.take_rows(x, positions, sharding.sequence_axis())
        table = self.encoder.embeddings.token_embedder.embedding
        size = self.config.logits_chunk_length
        return cross_entropy(self._features(x), table.T, self.mlm_bias, targets, size)
