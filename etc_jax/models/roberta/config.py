"""Sizes and choices of RoBERTa."""

import dataclasses
from collections.abc import Iterator

from etc_jax.base.rules import at_least
from etc_jax.models.encoder.config import EncoderConfig


@dataclasses.dataclass(frozen=True)
class RobertaConfig(EncoderConfig):
    """A RoBERTa (Liu et al. 2019): BERT with positions that skip padding.

    Attributes:
      pad_id: token of padding, whose number is also that of its row of positions.
    """

    # What released RoBERTas have instead of BERT's.
    vocab_size: int = 50265
    num_types: int = 1
    layer_norm_epsilon: float = 1e-5
    pad_id: int = 1

    @property
    def label_activation(self) -> str:
        return "tanh"

    @property
    def position_offset(self) -> int:
        # Padding has row pad_id, and positions begin after it.
        return self.pad_id + 1

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from at_least(0).problems(self, "pad_id")
