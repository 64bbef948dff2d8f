"""Sizes and choices of LongT5."""

import dataclasses
from collections.abc import Iterator

from etc_jax.base.rules import at_least, choice
from etc_jax.config.model_fields import sized
from etc_jax.layers.patterns.local import Local, TransientGlobal
from etc_jax.models.t5.config import T5Config


@dataclasses.dataclass(frozen=True)
class LongT5Config(T5Config):
    """A LongT5 (Guo et al. 2022): T5 v1.1 with local attention in its encoder.

    Attributes:
      encoder_attention: "local", windows; "transient_global", windows and the sums of
        blocks.
      radius: keys to each side.
      block_size: tokens of a sum.
    """

    max_length: int = 16384
    activation: str = "gelu"
    gated: bool = True
    tied_logits: bool = False
    scaled_logits: bool = False
    encoder_attention: str = sized("transient_global")
    radius: int = 127
    block_size: int = 16

    @property
    def patterns(self) -> tuple[Local]:
        if self.encoder_attention == "local":
            return (Local(self.radius),)
        sums = self.block_size, self.layer_norm_epsilon
        return (TransientGlobal(self.radius, *sums),)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(0, "itself alone").problems(self, "radius")
        yield from at_least(1).problems(self, "block_size")
        kinds = choice(("local", "transient_global"))
        yield from kinds.problems(self, "encoder_attention")
