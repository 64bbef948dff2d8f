"""Sizes and choices of T5."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import at_least
from etc_jax.config.model_fields import sized
from etc_jax.models.encoder_decoder.config import (
    EncoderDecoderConfig,
    Side,
    Spreads,
    sizes,
)


@dataclasses.dataclass(frozen=True)
class T5Config(EncoderDecoderConfig):
    """A T5 (Raffel et al. 2020); v1.1 is gated, with logits of their own, unscaled.

    Attributes:
      head_dim: of each head.
      num_buckets, max_distance: of relative positions, see `ops.attention.bias.bucket`.
      max_length: `n_positions` of transformers, which nothing depends on: positions
        are relative, so that inputs and targets have any length.
      layer_norm_epsilon: added to mean squares.
      initializer_range: multiplies the standard deviations of T5, which are those of
        the sizes of the maps.
      gated: the feed-forward blocks are gated (Shazeer 2020).
      tied_logits: logits are by the token table, not by a matrix of their own.
      scaled_logits: rows are divided by sqrt(embed_dim) before they become logits.
    """

    positions: ClassVar[str] = "relative"
    embed_norm: ClassVar[bool] = False
    pre_norm: ClassVar[bool] = True
    final_norm: ClassVar[bool] = True
    rms_norm: ClassVar[bool] = True
    use_bias: ClassVar[bool] = False
    # The kernel of queries begins the smaller for it.
    attention_scale: ClassVar[float] = 1.0
    final_dropout: ClassVar[bool] = True

    vocab_size: int = 32128
    num_layers: int = 12
    num_decoder_layers: int = 12
    max_length: int = 512
    activation: str = "relu"
    initializer_range: float = 1.0
    pad_id: int = 0
    decoder_start_id: int = 0
    eos_id: int = 1
    head_dim: int = sized(64)
    num_buckets: int = sized(32)
    max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    gated: bool = sized(False)
    tied_logits: bool = sized(True)
    scaled_logits: bool = True

    @property
    def attention_dropout_rate(self) -> float:
        """Of attention probabilities: one rate for all."""
        return self.dropout_rate

    @property
    def activation_dropout_rate(self) -> float:
        """Of the hidden layer of the feed-forward blocks."""
        return self.dropout_rate

    @property
    def logits_scale(self) -> float:
        return self.embed_dim**-0.5 if self.scaled_logits else 1.0

    def spreads(self, side: Side) -> Spreads:
        """As T5 begins: 1 / sqrt(inputs), queries of products without a scale."""
        width = self.embed_dim
        inputs = Spreads(
            table=1,
            query=width * self.head_dim,
            projection=width,
            out=side.num_heads * self.head_dim,
            wi=width,
            wo=side.mlp_dim,
            bias=width,
            logits=width,
        )
        return Spreads(*(self.initializer_range * size**-0.5 for size in inputs))

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.num_buckets < 4:
            yield (
                "num_buckets",
                f"is {self.num_buckets}; expected 4 or more: the encoder has half of "
                "them for each side, and of that half for single distances",
            )
        yield from at_least(1).problems(self, "max_distance")


# Raffel et al. 2020, section 3.7.
SIZES = {
    "small": sizes(512, 2048, 6, 8),
    "base": sizes(768, 3072, 12, 12),
    "large": sizes(1024, 4096, 24, 16),
    "3b": sizes(1024, 16384, 24, 32) | {"head_dim": 128},
}
# Of the gated models that were released later; Guo et al. 2022 have these too.
SIZES_V11 = {
    "small": sizes(512, 1024, 8, 6),
    "base": sizes(768, 2048, 12, 12),
    "large": sizes(1024, 2816, 24, 16),
    "xl": sizes(2048, 5120, 24, 32),
}
