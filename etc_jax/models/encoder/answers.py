"""An encoder of one sequence with the head of Natural Questions."""

from __future__ import annotations

import jax
from flax import linen as nn

from etc_jax.models.encoder.heads import EncoderHead, out_layer
from etc_jax.models.heads import NATURAL_QUESTIONS_TYPES, AnswerLogits


class EncoderForAnswers(EncoderHead):
    """Answer type, and both ends of short and long answer (Alberti et al. 2019)."""

    @nn.compact
    def __call__(
        self, tokens: jax.Array, example_ids: jax.Array, **inputs
    ) -> AnswerLogits:
        """Looks for answers.

        Args:
          tokens: as of `Encoder`.
          example_ids: as of `Encoder`.
          **inputs: as of `Encoder`.

        Returns:
          Logits `[b, 5]` of the type, read off the first token, and `[b, n, 4]` of the
          spans: the short answer's begin and end, and the long answer's.
        """
        c = self.config
        # [b, n] -> [b, n, e]
        x = self.make_encoder()(tokens, example_ids, **inputs)
        return AnswerLogits(
            # [b, e] -> [b, 5]
            answer_type=out_layer(c, NATURAL_QUESTIONS_TYPES, "answer_type")(x[:, 0]),
            # [b, n, e] -> [b, n, 4]
            span=out_layer(c, 4, "answer_span")(x),
        )
