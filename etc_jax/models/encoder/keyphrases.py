"""Encoders of one sequence for OpenKP: logits of all runs of words."""

import jax
from flax import linen as nn

from etc_jax.models.encoder.heads import EncoderHead
from etc_jax.models.ngram_head import NgramHead


class EncoderForKeyphrases(EncoderHead):
    """Encoder and head: `encoder`, `head`. The look of elements is not an input."""

    @nn.compact
    def __call__(
        self, tokens: jax.Array, example_ids: jax.Array, words: jax.Array, **inputs
    ) -> jax.Array:
        """Logits of runs of words.

        Args:
          tokens: int `[b, n]`, as of `Encoder`.
          example_ids: int `[b, n]`, as of `Encoder`.
          words: int `[b, n]`; see `NgramHead`.
          **inputs: as of `Encoder`.

        Returns:
          float32 `[b, 5, n]`; see `NgramHead`.
        """
        encoder = self.make_encoder()
        # [b, n] -> [b, n, e] -> [b, 5, n]
        x = encoder(tokens, example_ids, **inputs)
        return NgramHead(self.config, name="head")(x, words)
