"""Encoders of one sequence on questions over several documents (Longformer, section 6).

What is chosen from has a token before or behind it, whose row tells of it.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.models.encoder import Encoder, EncoderConfig
from etc_jax.models.encoder_heads import dropout_layer, out_layer
from etc_jax.ops import sequence


class EncoderForCandidates(nn.Module):
    """The encoder with a logit for each of some tokens, which stand for answers.

    Attributes:
      config: of the encoder.
      deterministic: no dropout.
    """

    config: EncoderConfig
    deterministic: bool = True

    @nn.compact
    def __call__(
        self, tokens: jax.Array, example_ids: jax.Array, candidates: jax.Array, **inputs
    ) -> jax.Array:
        """Rates candidates.

        Args:
          tokens: as of `Encoder`.
          example_ids: likewise.
          candidates: int `[b, m]`, places of their tokens; -1 for none.
          **inputs: as of `Encoder`.

        Returns:
          float32 logits `[b, m]`; without a meaning where there is no candidate.
        """
        c = self.config
        encoder = Encoder(c, self.deterministic, name="encoder")
        x = rows_at(encoder(tokens, example_ids, **inputs), candidates)
        x = dropout_layer(c, self.deterministic)(x)
        return out_layer(c, 1, "candidate")(x)[..., 0]


def rows_at(x: jax.Array, places: jax.Array) -> jax.Array:
    """The rows `[b, m, e]` at some places.

    Args:
      x: `[b, n, e]`.
      places: int `[b, m]`; -1 for none, which gives any row.
    """
    return sequence.take_rows(x, jnp.maximum(places, 0), sharding.sequence_axis())
