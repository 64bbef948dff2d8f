"""Encoders of one sequence on questions over several documents (Longformer, section 6).

What is chosen from has a token before or after it, whose row represents it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.common import ACTIVATIONS, Dense
from etc_jax.models.encoder.heads import EncoderHead, out_layer
from etc_jax.models.heads import HOTPOTQA_TYPES
from etc_jax.ops import sequence


class EncoderForCandidates(EncoderHead):
    """The encoder with a logit for each of some tokens, which stand for answers."""

    @nn.compact
    def __call__(
        self, tokens: jax.Array, example_ids: jax.Array, candidates: jax.Array, **inputs
    ) -> jax.Array:
        """Rates candidates.

        Args:
          tokens: as of `Encoder`.
          example_ids: as of `Encoder`.
          candidates: int `[b, m]`, places of their tokens; -1 for none.
          **inputs: as of `Encoder`.

        Returns:
          float32 logits `[b, m]`; without a meaning where there is no candidate.
        """
        c = self.config
        encoder = self.make_encoder()
        # [b, n] -> [b, n, e] -> [b, m, e]
        x = rows_at(encoder(tokens, example_ids, **inputs), candidates)
        x = self.dropout()(x)
        # [b, m, e] -> [b, m, 1] -> [b, m]
        return out_layer(c, 1, "candidate")(x)[..., 0]


class EvidenceLogits(NamedTuple):
    """Logits of an answer and of what supports it, float32.

    Attributes:
      paragraph: `[b, p]`, whether a paragraph has a supporting sentence.
      sentence: `[b, s]`, whether a sentence supports the answer.
      answer_type: `[b, 3]`: span, yes, no.
      start: `[b, n]`, whether the answer begins at a token.
      end: `[b, n]`, whether it ends there.
    """

    paragraph: jax.Array
    sentence: jax.Array
    answer_type: jax.Array
    start: jax.Array
    end: jax.Array


class EncoderForEvidence(EncoderHead):
    """The encoder with an answer and what supports it: paragraphs and sentences."""

    @nn.compact
    def __call__(
        self,
        tokens: jax.Array,
        example_ids: jax.Array,
        paragraphs: jax.Array,
        sentences: jax.Array,
        **inputs,
    ) -> EvidenceLogits:
        """Looks for an answer and for evidence.

        Args:
          tokens: as of `Encoder`.
          example_ids: as of `Encoder`.
          paragraphs: int `[b, p]`, places of their tokens; -1 for none.
          sentences: int `[b, s]`, places of their tokens; -1 for none.
          **inputs: as of `Encoder`.

        Returns:
          Logits, without a meaning where there is no paragraph or sentence. The type is
          read off the first token.
        """
        c = self.config
        encoder = self.make_encoder()
        x = self.dropout()(encoder(tokens, example_ids, **inputs))
        # [b, n, e] -> [b, n, 2]
        span = out_layer(c, 2, "answer_span")(x)
        return EvidenceLogits(
            # [b, p, e] -> [b, p, 1] -> [b, p]
            paragraph=self._head(rows_at(x, paragraphs), "paragraph", 1)[..., 0],
            # [b, s, e] -> [b, s, 1] -> [b, s]
            sentence=self._head(rows_at(x, sentences), "sentence", 1)[..., 0],
            # [b, e] -> [b, 3]
            answer_type=self._head(x[:, 0], "type", HOTPOTQA_TYPES),
            start=span[..., 0],
            end=span[..., 1],
        )

    def _head(self, x: jax.Array, name: str, features: int) -> jax.Array:
        """Two layers."""
        c = self.config
        sizes = ((c.embed_dim,), c.initializer_range, c.compute_dtype)
        x = ACTIVATIONS[c.activation](Dense(*sizes, name=f"{name}_dense")(x))
        return out_layer(c, features, f"{name}_out")(x)


def rows_at(x: jax.Array, positions: jax.Array) -> jax.Array:
    """The rows `[b, m, e]` at some places.

    Args:
      x: `[b, n, e]`.
      positions: int `[b, m]`; -1 for none, which gives any row.
    """
    return sequence.take_rows(x, jnp.maximum(positions, 0), sharding.sequence_axis())
