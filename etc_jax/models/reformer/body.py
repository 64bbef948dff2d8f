"""Reformer (Kitaev et al. 2020): two reversible streams, local and LSH attention."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.block import AttentionHalf, CrossAttentionHalf, MlpHalf
from etc_jax.layers.common import Dense, LayerNorm, chunked_mlp
from etc_jax.layers.cross_attention import CrossAttention
from etc_jax.layers.patterns.chunks import hash_key
from etc_jax.layers.reversible import LayerKind, TwoStreamStack
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.config_problems import refuse
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.reformer.embeddings import ReformerEmbeddings
from etc_jax.ops import blocking, sequence
from etc_jax.ops.chunked_loss import FactoredLogits


def make_stack(
    config: ReformerConfig,
    deterministic: bool,
    cross_attention: bool = False,
    cache_length: int | None = None,
) -> TwoStreamStack:
    """The layers.

    Args:
      config: of the model.
      deterministic: no dropout.
      cross_attention: layers have it: those of the decoder of an encoder-decoder.
      cache_length: see `SelfAttention`.
    """
    kinds = tuple(
        _kind(config, deterministic, i, cross_attention, cache_length)
        for i in range(len(config.run))
    )
    repeats = config.num_layers // len(config.run)
    return TwoStreamStack(kinds, repeats, config.reversible)


def _kind(
    config: ReformerConfig,
    deterministic: bool,
    i: int,
    cross_attention: bool,
    cache_length: int | None,
) -> LayerKind:
    c, kind, pattern = config, config.run[i], config.patterns[i]

    def norm(name: str) -> LayerNorm:
        return LayerNorm(c.layer_norm_epsilon, c.compute_dtype, name=name)

    def options(dropout_rate: float) -> dict[str, Any]:
        # No map of attention has a bias (trax).
        return {
            "num_heads": c.num_heads,
            "head_dim": c.attention_head_dim,
            "stddev": c.initializer_range,
            "projection_bias": False,
            "out_bias": False,
            "dropout_rate": dropout_rate,
            "implementation": c.attention,
            "deterministic": deterministic,
            "dtype": c.compute_dtype,
        }

    def attention(name: str) -> nn.Module:
        of_kind = options(c.attention_dropout_rates[kind])
        return pattern.module(name=name, cache_length=cache_length, **of_kind)

    def mlp(name: str):
        return chunked_mlp(
            c.mlp_chunk_length,
            mlp_dim=c.mlp_dim,
            activation=c.activation,
            stddev=c.initializer_range,
            dtype=c.compute_dtype,
            hidden_dropout_rate=c.dropout_rate,
            deterministic=deterministic,
            name=name,
        )

    def cross(name: str) -> CrossAttention:
        return CrossAttention(**options(c.attention_dropout_rate), name=name)

    halves = {"f": AttentionHalf, "cross": CrossAttentionHalf, "g": MlpHalf}
    if not cross_attention:
        del halves["cross"]
    parts = {
        "attention": attention,
        "cross_attention": cross,
        "mlp": mlp,
        "norm": norm,
        "dropout_rate": c.dropout_rate,
        "deterministic": deterministic,
        # The stack calls halves as functions of parameters.
        "parent": None,
    }
    make = {name: functools.partial(half, **parts) for name, half in halves.items()}
    return LayerKind(f"{kind}_{i}", make)


class Reformer(nn.Module):
    """The body: tokens to the two streams, side by side and normalised.

    Attributes:
      config: sizes and choices.
      deterministic: no dropout.
    """

    config: ReformerConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        refuse(c)
        self.embeddings = ReformerEmbeddings(c, self.deterministic)
        self.stack = make_stack(c, self.deterministic)
        # Over the features of both streams, 2 * e.
        self.final_norm = LayerNorm(c.layer_norm_epsilon, c.compute_dtype)

    def __call__(
        self,
        tokens: jax.Array,
        example_ids: jax.Array | None = None,
        rotations: jax.Array | None = None,
    ) -> jax.Array:
        """Encodes a batch of any length that there are positions for.

        Args:
          tokens: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding, packed examples do not see each
            other; None: one example a row.
          rotations: for all LSH layers, `[heads, head_dim, num_hashes, half the sum of
            the buckets' factors]`; None: drawn for each layer, from rng stream "lsh" or
            "dropout" if there is one, else from hash_seed.

        Returns:
          `[b, n, 2 * embed_dim]` in the compute dtype.

        Raises:
          ValueError: if the shapes do not fit the config.
        """
        # Both streams begin as the embeddings.
        x, shared, rng = self._start(tokens, example_ids, rotations)
        return self._end(*self.stack(x, x, shared, rng))[:, : tokens.shape[1]]

    def with_hidden(self, tokens, example_ids=None, rotations=None):
        """What is in between, all of it kept; for comparison with other code.

        Args:
          tokens: see `__call__`.
          example_ids: see `__call__`.
          rotations: see `__call__`.

        Returns:
          (outputs `[b, n, 2 * embed_dim]`, second streams, buckets): the embeddings and
          the second stream after each layer, `[b, padded n, embed_dim]`; and the
          buckets of each LSH layer, `[b, h, rounds, padded n]`.
        """
        x, shared, rng = self._start(tokens, example_ids, rotations)
        outputs, hidden, states = self.stack.with_hidden(x, x, shared, rng)
        # hidden[i] is [repeats, b, padded n, e], of layer i of each repeat.
        layers = [(r, i) for r in range(hidden[0].shape[0]) for i in range(len(hidden))]
        streams = [x, *(hidden[i][r] for r, i in layers)]
        buckets = [states[i][0][r] for r, i in layers if states[i][0] is not None]
        return self._end(*outputs)[:, : tokens.shape[1]], streams, buckets

    def _start(self, tokens, example_ids, rotations):
        """(both streams at first, what all layers get, key)."""
        c = self.config
        if tokens.ndim != 2:
            raise ValueError(f"tokens has shape {tokens.shape}, expected [batch, n]")
        n = tokens.shape[1]
        field, longest = c.input_limit
        if longest is not None and n > longest:
            raise ValueError(
                f"the input has {n} tokens, but {field} has positions for {longest}"
            )
        if example_ids is None:
            example_ids = jnp.ones_like(tokens, jnp.int32)
        extra = c.padded(n) - n
        tokens, example_ids = (
            blocking.pad_axis(a, 1, 0, extra) for a in (tokens, example_ids)
        )
        # [b, padded n] -> [b, padded n, e]
        x = self.embeddings(tokens).astype(c.residual_dtype)
        inputs = SequenceInputs(example_ids, rotations=rotations)
        return x, inputs, hash_key(self, c.hash_seed)

    def _end(self, y1, y2):
        # [b, padded n, e], twice -> [b, padded n, 2 * e]
        return self.final_norm(jnp.concatenate([y1, y2], axis=-1))


class ReformerLm(nn.Module):
    """Reformer with logits over the vocabulary: a language model, or masked.

    Attributes:
      config: sizes and choices.
      deterministic: no dropout.
    """

    config: ReformerConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        self.encoder = Reformer(c, self.deterministic)
        sizes = (c.vocab_size,), c.initializer_range, c.compute_dtype
        self.logits = Dense(*sizes, wide=True)

    def __call__(self, tokens, example_ids=None, rotations=None) -> jax.Array:
        """float32 logits `[b, n, vocabulary]`; see `Reformer`."""
        x = self.encoder(tokens, example_ids, rotations)
        # [b, n, 2 * e] -> float32 [b, n, vocabulary]
        return self.logits(x)

    def losses(self, tokens, targets, example_ids=None, rotations=None):
        """Cross entropy of each target, of `logits_chunk_length` tokens at once.

        Args:
          tokens: see `Reformer`.
          targets: int `[b, n]`.
          example_ids: see `Reformer`.
          rotations: see `Reformer`.

        Returns:
          (float32 `[b, n]` in nats, bool `[b, n]`: whether a target is the likeliest).
        """
        predicted = self.factored_logits(tokens, example_ids, rotations)
        return predicted.cross_entropy(targets)

    def factored_logits(
        self, tokens, example_ids=None, rotations=None
    ) -> FactoredLogits:
        """The logits of `__call__`, not yet computed; see there."""
        return self._factored(self.encoder(tokens, example_ids, rotations))

    def masked_losses(self, tokens, example_ids, positions, targets):
        """The same of some tokens alone; see `objectives.masked_lm.MaskedModel`."""
        x = self.encoder(tokens, example_ids)
        # [b, n, 2 * e] -> [b, p, 2 * e]
        rows = sequence.take_rows(x, positions)
        return self._factored(rows).cross_entropy(targets)

    def _factored(self, x: jax.Array) -> FactoredLogits:
        # The parameters, not the module: logits exist inside the loss alone, in chunks.
        head = self.logits.variables["params"]
        size = self.config.logits_chunk_length
        return FactoredLogits(x, head["kernel"], head["bias"], size)
