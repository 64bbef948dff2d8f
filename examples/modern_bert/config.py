"""Sizes and choices of ModernBERT."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.base.rules import Rule, at_least, more_than
from etc_jax.layers.self_attention import Pattern
from etc_jax.layers.stack import run_of
from etc_jax.models.encoder.config import EncoderConfig
from modern_bert.rotary import RotaryFull, RotaryLocal

_WINDOW = Rule("an even number, 2 or more", lambda width: width > 1 and width % 2 == 0)


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """A ModernBERT (Warner et al. 2024); the defaults are those of the base size.

    Attributes:
      max_length: longest sequence that the model is trained for. No table ends there,
        so `etc-jax extend` raises it without new parameters.
      local_window: keys that a token sees on both sides together, an even number,
        in all layers but the global ones.
      global_every: layer i sees everything where this divides i.
      global_base: of the wavelengths of positions in global layers (Su et al. 2021).
      local_base: the same of the other layers.
    """

    # There is no table of types: the only type is 0.
    num_types: ClassVar[int] = 1
    positions: ClassVar[str] = "rotary"
    position_kinds: ClassVar[tuple[str, ...]] = ("rotary",)
    projection_bias: ClassVar[bool] = False
    pre_norm: ClassVar[bool] = True

    vocab_size: int = 50368
    num_layers: int = 22
    mlp_dim: int = 1152
    max_length: int = 8192
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    layer_norm_epsilon: float = 1e-5
    local_window: int = 128
    global_every: int = 3
    global_base: float = 160_000.0
    local_base: float = 10_000.0

    @property
    def label_activation(self) -> str:
        return self.activation

    @property
    def position_limit(self) -> int:
        """See `EncoderConfig`: no longer ones were seen in training."""
        return self.max_length

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What tokens see in each layer, from the first to the last."""
        # Both sides together -> one side.
        local = RotaryLocal(self.local_window // 2, self.local_base)
        everything = RotaryFull(self.global_base)
        return tuple(
            local if i % self.global_every else everything
            for i in range(self.num_layers)
        )

    @property
    def run(self) -> int:
        """Layers after the first one that repeat themselves, as often as they fit."""
        rest = self.num_layers - 1
        return len(run_of(range(min(self.global_every, rest)), rest))

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(2).problems(self, "num_layers")
        yield from at_least(1).problems(self, "global_every")
        yield from more_than(0).problems(self, "global_base", "local_base")
        yield from _WINDOW.problems(self, "local_window")
        if self.num_heads > 0 and self.attention_head_dim % 2:
            yield (
                "head_dim",
                f"is {self.attention_head_dim}; expected an even number: positions "
                "turn pairs of features",
            )
