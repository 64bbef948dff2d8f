"""Sizes and choices of LED."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.config.model_fields import free, sized
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.stack import run_of
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.config_problems import window_problems
from etc_jax.models.encoder_decoder.config import Side
from etc_jax.ops.attention.parts.checks import dropout_rate_problem


@dataclasses.dataclass(frozen=True)
class LedConfig(BartConfig):
    """A Longformer encoder-decoder (Beltagy et al. 2020, section 7).

    Attributes:
      max_target_length: longest target.
      attention_window: keys that a token of the encoder sees on both sides together, an
        even number; one for all layers, or one for each of a run of layers that is
        repeated, the last time as far as there are layers.
      encoder_attention_dropout_rate: of attention probabilities of the encoder; None:
        as the decoder's.
    """

    # Its tables have no rows before that of position 0.
    position_offset: ClassVar[int] = 0

    max_length: int = 16384
    max_target_length: int = sized(1024)
    forced_eos_id: int | None = None
    attention_window: tuple[int, ...] = (1024,)
    encoder_attention_dropout_rate: float | None = free(None)

    @property
    def encoder_side(self) -> Side:
        side, rate = super().encoder_side, self.encoder_attention_dropout_rate
        return side if rate is None else side._replace(attention_dropout_rate=rate)

    @property
    def patterns(self) -> tuple[SlidingWindow, ...]:
        # Both sides together -> one side.
        windows = [SlidingWindow(width // 2) for width in self.attention_window]
        return run_of(windows, self.num_layers)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from window_problems(self)
        if problem := dropout_rate_problem(self.encoder_side.attention_dropout_rate):
            yield "encoder_attention_dropout_rate", problem
