"""How an encoder of short texts reads long ones: fields of SLED."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

from etc_jax.base.rules import at_least, number
from etc_jax.ops.context_windows import Windows


@dataclasses.dataclass(frozen=True)
class SledConfig:
    """Windows of the input, each of which is encoded alone (Ivgi et al. 2022).

    An input is a prefix, such as a question, and a document. The decoder reads the rows
    of all of them. There are no parameters: any encoder-decoder works so.

    Attributes:
      window: tokens of the document in a window; 0: the encoder reads its input whole.
      padding_share: share of a window that is context for the rest of it, half on each
        side.
      prefix_length: places of the prefix, the first ones of an input; a shorter prefix
        is padded there. 0: there is no prefix.
      prefix_in_windows: a window is encoded behind the prefix; False: the prefix is
        encoded alone.
      prefix_in_memory: the decoder reads the rows of the prefix too.
      input_length: longest input, with its prefix.
      last_window: where it ends: "document", with each document, as in the paper;
        "row", with the padding of the batch, as in the authors' code.
      windows_at_once: of each input, on each device that it is split over; the backward
        pass then encodes so many again at a time; 0: all.
    """

    window: int = 0
    padding_share: float = 0.5
    prefix_length: int = 0
    prefix_in_windows: bool = True
    prefix_in_memory: bool = True
    input_length: int = 16384
    last_window: Literal["document", "row"] = "document"
    windows_at_once: int = 0

    @property
    def windows(self) -> Windows:
        """How the document is cut."""
        # Half of 20 * 0.1 is 1, which floating point may miss by a little.
        margin = int(self.window * self.padding_share / 2 + 1e-6)
        return Windows(self.window, margin)

    @property
    def encoded_length(self) -> int:
        """Places that the encoder is given at once."""
        if self.prefix_in_windows:
            return self.prefix_length + self.window
        return max(self.prefix_length, self.window)

    def field_problems(self) -> Iterator[tuple[str, str]]:
        """(field, message) for everything that is wrong; the model's config asks."""
        counts = "window", "prefix_length", "windows_at_once"
        yield from at_least(0).problems(self, *counts)
        yield from number(0, 1, "[)").problems(self, "padding_share")
        if self.input_length <= self.prefix_length:
            yield (
                "input_length",
                f"is {self.input_length}; expected more than the {self.prefix_length} "
                "places of prefix_length",
            )
        usual = SledConfig()
        changed = [
            field.name
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        ]
        if not self.window and changed:
            yield (
                "window",
                f"is 0, so that the input is read whole, but {', '.join(changed)} "
                "says otherwise; set the window, such as 256, or leave that out",
            )
