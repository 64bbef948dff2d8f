"""ETC: Extended Transformer Construction (Ainslie et al. 2020), encoder and heads."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding, structure as st
from etc_jax.base.types import Rows
from etc_jax.layers.block import AttentionHalf, Block, MlpHalf
from etc_jax.layers.common import ACTIVATIONS, Dense, LayerNorm, Mlp
from etc_jax.layers.embeddings import EtcEmbeddings
from etc_jax.layers.patterns.chunks import hash_key
from etc_jax.layers.reversible import LayerKind, TwoStreamStack
from etc_jax.layers.self_attention import Pattern, drawn
from etc_jax.layers.stack import Period, Several, Stack
from etc_jax.models.config_problems import refuse
from etc_jax.models.etc.config import EtcConfig
from etc_jax.ops import sequence
from etc_jax.ops.chunked_loss import cross_entropy

NOTHING = Rows(None, None)


def _norm(config: EtcConfig, name: str | None = None) -> LayerNorm:
    return LayerNorm(config.layer_norm_epsilon, config.compute_dtype, name=name)


def _mlp(config: EtcConfig, name: str) -> Mlp:
    return Mlp(
        config.mlp_dim,
        config.activation,
        config.initializer_range,
        config.compute_dtype,
        name=name,
    )


def _attention(config: EtcConfig, deterministic: bool, pattern: Pattern, name: str):
    return pattern.module(
        num_heads=config.num_heads,
        head_dim=config.attention_head_dim,
        stddev=config.initializer_range,
        dropout_rate=config.attention_dropout_rate,
        implementation=config.attention,
        deterministic=deterministic,
        dtype=config.compute_dtype,
        name=name,
    )


def _laid_out(x: Rows) -> Rows:
    # Global rows are few: every device of a split sequence has them all.
    return Rows(
        sharding.constrain(x.long, "batch", "length", "activation_embed"),
        sharding.constrain(x.global_, "batch", None, "activation_embed"),
    )


# The streams of a block: attention norms are two, feed-forward and its norm are one for
# both (paper, section 3.2).
STREAMS = {
    "attention_norm": Rows("long_attention_norm", "global_attention_norm"),
    "mlp_norm": Rows("mlp_norm", "mlp_norm"),
    "mlp_name": Rows("mlp", "mlp"),
    "laid_out": _laid_out,
}
_OWN_MLPS = {
    "mlp_norm": Rows("long_mlp_norm", "global_mlp_norm"),
    "mlp_name": Rows("long_mlp", "global_mlp"),
}


def _parts(config: EtcConfig, deterministic: bool, pattern: Pattern) -> dict[str, Any]:
    """What layers, and halves of reversible ones, are made of."""
    mlps = {} if config.share_mlp else _OWN_MLPS
    return {
        **STREAMS,
        **mlps,
        "attention": functools.partial(_attention, config, deterministic, pattern),
        "mlp": functools.partial(_mlp, config),
        "norm": functools.partial(_norm, config),
        "dropout_rate": config.dropout_rate,
        "deterministic": deterministic,
    }


def _stack(config: EtcConfig, deterministic: bool) -> Stack | TwoStreamStack:
    repeats = config.num_layers // len(config.run)
    kinds = [
        (f"{kind}_{i}", _parts(config, deterministic, pattern))
        for i, (kind, pattern) in enumerate(
            zip(config.run, config.patterns, strict=True)
        )
    ]
    if config.reversible:
        return TwoStreamStack(
            tuple(
                # No parent: the stack calls halves as functions of parameters.
                LayerKind(
                    name,
                    {
                        "f": functools.partial(AttentionHalf, **parts, parent=None),
                        "g": functools.partial(MlpHalf, **parts, parent=None),
                    },
                )
                for name, parts in kinds
            ),
            repeats,
        )
    # A repeat of one layer is no `Period`: its parameters are below "layer".
    if len(kinds) == 1:
        kinds = [("layer", kinds[0][1])]
    layers = [
        functools.partial(Block, **parts, pre_norm=config.pre_norm, name=name)
        for name, parts in kinds
    ]
    make = layers[0]
    if len(layers) > 1:
        make = functools.partial(Period, tuple(layers), name="period")
    options = config.scan_layers, config.remat_policy, config.compute_dtype
    return Stack(make, repeats, *options)


class Etc(nn.Module):
    """The ETC encoder.

    Attributes:
      config: sizes and choices.
      deterministic: no dropout.
    """

    config: EtcConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        refuse(c)
        self.embeddings = EtcEmbeddings(
            vocab_size=c.vocab_size,
            num_types=c.num_types,
            embed_dim=c.embed_dim,
            embedding_dim=c.token_dim,
            max_positions=c.max_positions,
            stddev=c.initializer_range,
            dropout_rate=c.dropout_rate,
            epsilon=c.layer_norm_epsilon,
            deterministic=self.deterministic,
            dtype=c.compute_dtype,
        )
        self.stack = _stack(c, self.deterministic)
        if c.reversible:
            # Nothing has normalised the two streams: halves add to them as they are.
            self.long_final_norm, self.global_final_norm = _norm(c), _norm(c)

    def __call__(
        self,
        long_tokens: jax.Array,
        global_tokens: jax.Array,
        structure: st.Structure | st.ExplicitStructure,
        *,
        types: Rows = NOTHING,
        positions: Rows = NOTHING,
        adders: Rows = NOTHING,
    ) -> Rows:
        """Encodes a batch.

        Args:
          long_tokens: int `[b, n]`.
          global_tokens: int `[b, g]`, of the same vocabulary.
          structure: what the tokens are to each other.
          types: token types of both inputs; None: 1 for long, 0 for global tokens.
          positions: absolute positions of both inputs; None: 0, 1, ....
          adders: `[b, n, e]` and `[b, g, e]`, added to the embeddings before the norm.

        Returns:
          `Rows` of `[b, n, e]` and `[b, g, e]` in the compute dtype.

        Raises:
          ValueError: if the shapes or the structure do not fit the config.
        """
        tokens = Rows(long_tokens, global_tokens)
        # [b, n], [b, g] -> [b, n, e], [b, g, e]
        x = self._embedded(tokens, types, positions, adders)
        if self.config.reversible:
            return self._reversed(x, structure)
        n = long_tokens.shape[1]
        return self.stack(x, structure, self._per_layer(n))

    def together(self, *inputs: tuple[Any, Any, Any]) -> tuple[Rows, ...]:
        """Encodes several batches in one pass over the layers; see `stack.Several`.

        Reversible layers, which keep nothing, take one batch after the other.

        Args:
          *inputs: (long tokens, global tokens, structure) of each batch, as of
            `__call__`; their lengths may differ.

        Returns:
          What `__call__` gives for each.
        """
        if self.config.reversible:
            return tuple(self(*one) for one in inputs)
        # One `Rows` for each batch; batch sizes and lengths may differ.
        x = [self._embedded(Rows(*tokens)) for *tokens, _ in inputs]
        structures = tuple(structure for *_, structure in inputs)
        per_layer = self._per_layer(max(tokens.shape[1] for tokens, *_ in inputs))
        return self.stack(Several(tuple(x)), Several(structures), per_layer).inputs

    def _per_layer(self, length: int):
        """What each layer alone is given, `[repeats, layers of a repeat, ...]`."""
        c = self.config
        sizes = length, c.num_layers, c.num_heads, self.deterministic
        per_layer, width = drawn(c.patterns, *sizes), len(c.patterns)
        if per_layer is None or width == 1:
            return per_layer
        # [layers, ...] -> [repeats, layers of a repeat, ...]
        return per_layer.reshape(-1, width, *per_layer.shape[1:])

    def _embedded(self, tokens: Rows, types=NOTHING, positions=NOTHING, adders=NOTHING):
        for name, ids in zip(("long", "global"), tokens, strict=True):
            if ids.ndim != 2:
                raise ValueError(
                    f"{name}_tokens has shape {ids.shape}, expected [batch, length]"
                )
        return self.embeddings(tokens, types, positions, adders)

    def _reversed(self, x: Rows, structure) -> Rows:
        """The reversible layers and the norm of their two streams' mean."""
        # In bfloat16 the backward pass would find other inputs than were given.
        x = jax.tree.map(lambda a: a.astype(jnp.float32), x)
        rng = hash_key(self, self.config.hash_seed)
        y1, y2 = self.stack(x, x, structure, rng)
        # [b, n, e] and [b, g, e], in float32 until the norm.
        mean = jax.tree.map(lambda a, b: (a + b) / 2, y1, y2)
        return Rows(
            self.long_final_norm(mean.long), self.global_final_norm(mean.global_)
        )

    def vocabulary_logits(self, x: jax.Array) -> jax.Array:
        """`[..., token_dim]` -> float32 logits by the token table."""
        return self.embeddings.attend(x)


class EtcForPretraining(nn.Module):
    """ETC with the heads of masked language modelling and CPC (paper, section 3.5).

    Attributes:
      config: of the encoder.
      deterministic: no dropout.
    """

    config: EtcConfig
    deterministic: bool = True

    def setup(self):
        c = self.config
        self.encoder = Etc(c, self.deterministic)
        # To the width of the token table, which gives the logits.
        self.mlm_dense = Dense((c.token_dim,), c.initializer_range, c.compute_dtype)
        self.mlm_norm = LayerNorm(c.layer_norm_epsilon, c.compute_dtype)
        self.mlm_bias = self.param("mlm_bias", nn.initializers.zeros, (c.vocab_size,))
        # exp(log_temperature) divides similarities; the paper leaves it open.
        self.cpc_log_temperature = self.param(
            "cpc_log_temperature", nn.initializers.constant(jnp.log(0.1)), ()
        )

    def encode(self, long_tokens, global_tokens, structure) -> Rows:
        """The encoder's outputs; see `Etc`."""
        return self.encoder(long_tokens, global_tokens, structure)

    def encode_together(self, *inputs) -> tuple[Rows, ...]:
        """The encoder's outputs of several batches; see `Etc.together`."""
        return self.encoder.together(*inputs)

    def mlm_logits(self, long_output: jax.Array, positions: jax.Array) -> jax.Array:
        """Vocabulary logits at chosen places.

        Args:
          long_output: `[b, n, e]`.
          positions: int `[b, p]`.

        Returns:
          float32 `[b, p, vocabulary]`.
        """
        # [b, n, e] -> [b, p, token_dim] -> [b, p, vocabulary]
        logits = self.encoder.vocabulary_logits(self._mlm_rows(long_output, positions))
        return logits + self.mlm_bias[None, None, :]

    def mlm_losses(self, long_output, positions, targets):
        """Cross entropy at chosen places, `logits_chunk_length` of a row at once.

        Args:
          long_output: `[b, n, e]`.
          positions: int `[b, p]`.
          targets: int `[b, p]`.

        Returns:
          (float32 `[b, p]` in nats, bool `[b, p]`: whether a target is the likeliest).
        """
        x = self._mlm_rows(long_output, positions)
        # [vocabulary, token_dim]
        table = self.encoder.embeddings.token_embedder.embedding
        size = self.config.logits_chunk_length
        return cross_entropy(x, table.T, self.mlm_bias, targets, size)

    def _mlm_rows(self, long_output, positions) -> jax.Array:
        """What the token table is multiplied with: `[b, p, token_dim]`."""
        # [b, n, e] -> [b, p, e]; the map and the norm follow on these alone.
        x = sequence.take_rows(long_output, positions, sharding.sequence_axis())
        return self.mlm_norm(ACTIVATIONS[self.config.activation](self.mlm_dense(x)))

    def temperature(self) -> jax.Array:
        """The divisor of CPC similarities, a positive scalar."""
        return jnp.exp(self.cpc_log_temperature)

    def __call__(self, long_tokens, global_tokens, structure, mlm_positions):
        """(encoder outputs, MLM logits): touches every parameter, for `init`."""
        output = self.encode(long_tokens, global_tokens, structure)
        self.temperature()
        return output, self.mlm_logits(output.long, mlm_positions)
