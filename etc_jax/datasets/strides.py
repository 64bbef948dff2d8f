"""A question with a text that is cut into overlapping windows: the options of both."""

from __future__ import annotations

import dataclasses
from typing import Any

from etc_jax.base.rules import at_least, refuse
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.options import InputOptions


def default_stride(length: int) -> int:
    """128 for 512 tokens, 2048 for 4096 and 4096 for 8192, as in the ETC paper."""
    return length // 2 if length > 512 else max(1, length // 4)


@dataclasses.dataclass(frozen=True)
class StrideOptions(InputOptions):
    """How a question and a text become windows.

    Attributes:
      question_tokens: longest question; what is beyond is cut off.
      stride: tokens from the start of one window to that of the next; by default a
        quarter of the length, or half of it above 512 tokens.
    """

    question_tokens: int = 32
    stride: int | None = None

    def __post_init__(self):
        refuse(at_least(1).problems(self, "question_tokens", "stride"))

    def stride_for(self, length: int) -> int:
        """Tokens from one window of this length to the next."""
        return self.stride or default_stride(length)

    def starts(self, tokens: int, room: int, length: int) -> range:
        """The first token of each window; the last window reaches the end of the text.

        Args:
          tokens: of the text.
          room: for tokens of the text in a window.
          length: of a window.
        """
        stride = self.stride_for(length)
        return range(0, max(tokens - room, 0) + stride, stride)

    def shaping(self, sizes: InputSizes) -> dict[str, Any]:
        """See `InputOptions.shaping`; a text is cut into windows by the length."""
        n = sizes.text_length
        return {
            **super().shaping(sizes),
            "stride": self.stride_for(n),
            sizes.text_field: n,
        }

    def check_room(self, sizes: InputSizes, special: int) -> None:
        """Refuses sizes in which windows would leave out tokens.

        Args:
          sizes: of an input.
          special: tokens beside question and text.

        Raises:
          ValueError: naming what to change.
        """
        stride = self.stride_for(sizes.text_length)
        room = sizes.text_length - self.question_tokens - special
        if room < stride:
            raise ValueError(
                f"{sizes.text_length} tokens hold {max(room, 0)} of the text beside a "
                f"question of {self.question_tokens}, fewer than the stride {stride}; "
                f"raise {sizes.text_field}, or lower stride or question_tokens"
            )
