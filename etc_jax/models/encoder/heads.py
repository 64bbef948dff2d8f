"""What encoders of one sequence say of it: labels, answers, choices.

Layers and their order are those of transformers, whose weights fit.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import ACTIVATIONS, Dense, LayerNorm, Mlp
from etc_jax.layers.dropout import Dropout
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.family import make_body

# What Zaheer et al. 2020 take off logits where no answer may be.
_NO_ANSWER = 1e6


def out_layer(config: EncoderConfig, features: int, name: str) -> Dense:
    """The last layer of a head, with logits in float32."""
    return Dense((features,), config.initializer_range, jnp.float32, name=name)


class EncoderHead(nn.Module):
    """An encoder, below "encoder" in the tree of parameters, and what reads it.

    Attributes:
      config: of the encoder.
      deterministic: no dropout.
    """

    config: EncoderConfig
    deterministic: bool = True

    def make_encoder(self, with_pooler: bool = False) -> nn.Module:
        """The body of the family, to be called in a compact method."""
        options = {"with_pooler": with_pooler, "name": "encoder"}
        return make_body(self.config, self.deterministic, **options)

    def dropout(self) -> Dropout:
        """Dropout at the rate of the encoder."""
        return Dropout(self.config.dropout_rate, deterministic=self.deterministic)


class EncoderWithoutHead(EncoderHead):
    """The encoder alone.

    Attributes:
      with_pooler: the encoder has one.
    """

    with_pooler: bool = False

    @nn.compact
    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """Rows `[b, n, embed_dim]`; arguments as of `Encoder`."""
        encoder = self.make_encoder(self.with_pooler)
        return encoder(tokens, example_ids, **inputs)


class EncoderForTexts(EncoderHead):
    """The encoder on several batches of texts, which share its weights."""

    @nn.compact
    def __call__(self, texts: Mapping[str, Mapping[str, jax.Array]]):
        """{name: rows `[b, n, embed_dim]`} of {name: arguments of `Encoder`}."""
        encoder = self.make_encoder()
        return {name: encoder(**inputs) for name, inputs in texts.items()}


class EncoderForLabels(EncoderHead, kw_only=True):
    """The encoder with logits of the labels of a whole sequence, by its first token.

    Of a Longformer, that token should be global.

    Attributes:
      num_labels: of them.
      with_pooler: the encoder has one, whether or not this head reads it.
    """

    num_labels: int
    with_pooler: bool = False

    @nn.compact
    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """float32 logits `[b, num_labels]`; arguments as of `Encoder`."""
        c, dropout = self.config, self.dropout()
        encoder = self.make_encoder(self.with_pooler or c.label_activation is None)
        x = encoder(tokens, example_ids, **inputs)
        if c.label_activation is None:
            # [b, n, e] -> [b, e], by BERT's pooler.
            x = encoder.pooled(x)
        else:
            sizes = ((c.embed_dim,), c.initializer_range, c.compute_dtype)
            # [b, n, e] -> [b, e]: without a pooler the head maps the first row.
            x = Dense(*sizes, name="label_dense")(dropout(x[:, 0]))
            x = ACTIVATIONS[c.label_activation](x)
        # [b, e] -> [b, num_labels]
        return out_layer(c, self.num_labels, "label_out")(dropout(x))


class EncoderForTokenLabels(EncoderHead, kw_only=True):
    """The encoder with logits of the labels of each token.

    Attributes:
      num_labels: of them.
      with_pooler: the encoder has one, which this head does not read.
    """

    num_labels: int
    with_pooler: bool = False

    @nn.compact
    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """float32 logits `[b, n, num_labels]`; arguments as of `Encoder`."""
        encoder = self.make_encoder(self.with_pooler)
        x = self.dropout()(encoder(tokens, example_ids, **inputs))
        # [b, n, e] -> [b, n, num_labels]
        return out_layer(self.config, self.num_labels, "token_label_out")(x)


class EncoderForChoices(EncoderHead):
    """The encoder with a logit for each of several sequences, of which one is right."""

    @nn.compact
    def __call__(self, tokens, example_ids=None, **inputs) -> jax.Array:
        """Scores choices.

        Args:
          tokens: int `[b, choices, n]`.
          example_ids: as of `Encoder`, of each choice.
          **inputs: as of `Encoder`, of each choice; all share one `random_blocks`.

        Returns:
          float32 logits `[b, choices]`.
        """
        b, choices, _ = tokens.shape
        shared = {k: x for k, x in inputs.items() if k == "random_blocks"}
        flat = {"example_ids": example_ids, **inputs}
        flat = {
            # [b, choices, ...] -> [b * choices, ...]
            name: x.reshape(b * choices, *x.shape[2:])
            for name, x in flat.items()
            if x is not None and name not in shared
        }
        encoder = self.make_encoder(with_pooler=True)
        # [b * choices, n] -> [b * choices, n, e]
        x = encoder(tokens.reshape(b * choices, -1), **flat, **shared)
        # [b * choices, n, e] -> [b * choices, e]
        x = self.dropout()(encoder.pooled(x))
        # [b * choices, e] -> [b * choices, 1] -> [b, choices]
        return out_layer(self.config, 1, "choice_out")(x).reshape(b, choices)


class SpanLogits(NamedTuple):
    """float32 `[b, n]`: the logits of each token to begin, and to end, an answer."""

    start: jax.Array
    end: jax.Array


class EncoderForSpans(EncoderHead):
    """The encoder with two logits for each token: extractive question answering.

    Attributes:
      with_pooler: the encoder has one, which this head does not read.
    """

    with_pooler: bool = False

    @nn.compact
    def __call__(
        self, tokens, example_ids=None, *, answerable=None, **inputs
    ) -> SpanLogits:
        """Scores places.

        Args:
          tokens: as of `Encoder`.
          example_ids: as of `Encoder`.
          answerable: bool `[b, n]`, where answers may begin and end; elsewhere logits
            are lowered by 1e6. None: everywhere.
          **inputs: as of `Encoder`.
        """
        c = self.config
        encoder = self.make_encoder(self.with_pooler)
        x = encoder(tokens, example_ids, **inputs)
        if c.answer_mlp:
            x = self._block(x)
        # [b, n, e] -> [b, n, 2]
        logits = out_layer(c, 2, "answer_span")(x)
        if answerable is not None:
            logits = logits - jnp.where(answerable, 0.0, _NO_ANSWER)[..., None]
        return SpanLogits(logits[..., 0], logits[..., 1])

    def _block(self, x: jax.Array) -> jax.Array:
        c = self.config
        dropout = self.dropout()
        sizes = (c.mlp_dim, c.activation, c.initializer_range, c.compute_dtype)
        # [b, n, e] -> [b, n, e], a post-norm block as in the layers.
        y = dropout(Mlp(*sizes, name="answer_mlp")(dropout(x)))
        norm = LayerNorm(c.layer_norm_epsilon, c.compute_dtype, name="answer_norm")
        return norm(x + y)
