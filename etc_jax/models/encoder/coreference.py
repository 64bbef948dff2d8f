"""An encoder of one sequence with a head that pairs spans."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax.models.coreference import SpanPairHead, SpanPairs
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.family import make_body


class EncoderForCoreference(nn.Module):
    """The encoder with the kept spans of each text and their likely antecedents.

    Attributes:
      config: of the encoder.
      part_length: tokens of a text that the encoder reads at once (Joshi et al. 2019),
        without seeing the others; 0: all.
      span_tokens: of the longest span that may be a mention.
      ffnn_dim, head_dropout_rate, top_ratio, max_antecedents: see `SpanPairHead`.
      deterministic: no dropout.
    """

    config: EncoderConfig
    part_length: int
    span_tokens: int
    ffnn_dim: int
    head_dropout_rate: float
    top_ratio: float
    max_antecedents: int
    deterministic: bool = True

    @nn.compact
    def __call__(
        self,
        tokens: jax.Array,
        example_ids: jax.Array,
        spans: jax.Array,
        num_words: jax.Array,
    ) -> SpanPairs:
        """Pairs the spans of texts, each of which is a row.

        No token is global, and all are of type 0.

        Args:
          tokens: int `[b, n]`.
          example_ids: int `[b, n]`; 0 is padding.
          spans: int `[b, m, 2]`, places of the first and the last token of each
            candidate, in the order of the text; -1 for padding.
          num_words: int `[b]`.

        Returns:
          With a first axis for the texts.

        Raises:
          ValueError: if a text is not a number of whole parts.
        """
        c, (b, n) = self.config, tokens.shape
        length = self.part_length or n
        if n % length:
            raise ValueError(
                f"texts have {n} tokens, expected a multiple of part_length {length}"
            )
        encoder = make_body(c, self.deterministic, name="encoder")
        named = {}
        if c.has_globals:
            # Its projections of global tokens stay parts of the model.
            named["global_index"] = jnp.full((b * n // length, 1), -1, jnp.int32)
        # [b, n] -> [b * n / length, length]: parts are rows of their own.
        parts = (x.reshape(-1, length) for x in (tokens, example_ids))
        # [b * n / length, length, e] -> [b, n, e]
        rows = encoder(*parts, **named).reshape(b, n, -1)
        # The head is of one document; over the batch its parameters are the same, its
        # dropout is not.
        head = nn.vmap(
            SpanPairHead,
            variable_axes={"params": None},
            split_rngs={"params": False, "dropout": True},
        )(
            ffnn_dim=self.ffnn_dim,
            dropout_rate=self.head_dropout_rate,
            max_tokens=self.span_tokens,
            top_ratio=self.top_ratio,
            max_antecedents=self.max_antecedents,
            initializer_range=c.initializer_range,
            dtype=c.compute_dtype,
            deterministic=self.deterministic,
            name="head",
        )
        # [b, m, 2] -> [b, m] twice; padding reads row 0 and is masked.
        first, last = jnp.maximum(spans[..., 0], 0), jnp.maximum(spans[..., 1], 0)
        return head(rows, first, last, spans[..., 0] >= 0, num_words)
