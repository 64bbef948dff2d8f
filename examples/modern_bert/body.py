"""The body of ModernBERT and its head for masked tokens."""

import functools
from collections.abc import Callable

import jax
import numpy as np
from flax import linen as nn

from etc_jax.layers.block import Block
from etc_jax.layers.common import Dense, Embed, LayerNorm, truncated_normal
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.layers.stack import Period, Stack
from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder.body import Encoder, EncoderForMaskedLm, make_layer
from etc_jax.models.encoder.flops import EncoderFlops
from etc_jax.models.family import make_body
from etc_jax.ops import chunked_loss
from etc_jax.ops.flops import projection
from modern_bert.config import ModernBertConfig


def _norm(config: ModernBertConfig, name: str | None = None) -> LayerNorm:
    sizes = config.layer_norm_epsilon, config.compute_dtype
    return LayerNorm(*sizes, use_bias=False, name=name)


def _out_stddev(config: ModernBertConfig) -> float:
    """Of what is added to the residual stream, twice a layer."""
    return config.initializer_range / (2 * config.num_layers) ** 0.5


class Embeddings(nn.Module):
    """Tokens, normed: attention encodes their order, and there are no types."""

    config: ModernBertConfig
    deterministic: bool = True

    def setup(self):
        # setup, not compact: the output layer shares the token table.
        c, init = self.config, truncated_normal(self.config.initializer_range)
        sizes = c.vocab_size, c.embed_dim
        self.token_embedder = Embed(*sizes, embedding_init=init, dtype=c.compute_dtype)
        self.embed_norm = _norm(c)
        self.dropout = nn.Dropout(c.dropout_rate, deterministic=self.deterministic)

    def __call__(self, tokens, example_ids, types=None, positions=None) -> jax.Array:
        """int `[b, n]` -> `[b, n, e]`; the rest is for other families."""
        del example_ids, types, positions
        return self.dropout(self.embed_norm(self.token_embedder(tokens)))

    def attend(self, x: jax.Array) -> jax.Array:
        """`[..., e]` -> float32 logits over the vocabulary by the token table."""
        table = self.token_embedder.embedding
        # [..., e] x [e, vocabulary]
        return chunked_loss.logits(x.astype(self.config.compute_dtype), table.T)


class ModernBert(Encoder):
    """Tokens to rows; attributes and calls as of `Encoder`.

    The first layer, which has a norm less, stands before the scan. What follows repeats
    itself: of 22 layers 7 runs of two local ones and a global one.
    """

    config: ModernBertConfig

    def setup(self):
        c = self.config
        refuse(c)
        self.embeddings = Embeddings(c, self.deterministic)
        self.first = Stack(self._layer(0), 1, False, c.remat_policy)
        run = tuple(self._layer(i) for i in range(1, 1 + c.run))
        self.rest_stack = Stack(
            functools.partial(Period, run, name="period"),
            (c.num_layers - 1) // c.run,
            c.scan_layers,
            c.remat_policy,
        )
        self.final_norm = _norm(c)
        if self.with_pooler:
            self.pooler = Dense((c.embed_dim,), c.initializer_range, c.compute_dtype)

    def _layer(self, i: int) -> Callable[[], Block]:
        c, out_stddev = self.config, _out_stddev(self.config)

        def norm(name: str) -> Callable[[jax.Array], jax.Array]:
            # The first layer reads what the embeddings have normed.
            is_first = i == 0 and name == "attention_norm"
            return (lambda x: x) if is_first else _norm(c, name)

        return make_layer(
            *(c, self.deterministic, i, c.patterns[i]),
            norm=norm,
            attention_options={"out_bias": False, "out_stddev": out_stddev},
            mlp_options={"gated": True, "use_bias": False, "out_stddev": out_stddev},
        )

    def stack(self, x: jax.Array, inputs: SequenceInputs, per_layer=None) -> jax.Array:
        """All layers: `[b, n, e]` -> the same shape."""
        return self.rest_stack(self.first(x, inputs), inputs, per_layer)


class ModernBertForMaskedLm(EncoderForMaskedLm):
    """The encoder with logits over the vocabulary, as `EncoderForMaskedLm`."""

    config: ModernBertConfig

    def setup(self):
        c = self.config
        self.encoder = make_body(c, self.deterministic)
        sizes = (c.embed_dim,), _out_stddev(c), c.compute_dtype
        self.mlm_dense = Dense(*sizes, use_bias=False)
        self.mlm_norm = _norm(c)
        self.mlm_bias = self.param("mlm_bias", nn.initializers.zeros, (c.vocab_size,))


class ModernBertFlops(EncoderFlops):
    """See `useful_flops.Flops`."""

    @staticmethod
    def body(config: ModernBertConfig, inputs: SequenceInputs) -> float:
        """Of the encoder's forward pass: with the maps of the gates."""
        tokens = int(np.sum(np.asarray(inputs.example_ids) > 0))
        gates = projection(tokens, config.embed_dim, config.mlp_dim)
        return EncoderFlops.body(config, inputs) + config.num_layers * gates
