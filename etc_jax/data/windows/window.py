"""One input for a model, whatever its format."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from etc_jax.data.schema import Placed, Schema
from etc_jax.structure import MAX_GLOBALS


@dataclasses.dataclass(frozen=True)
class InputSizes:
    """Lengths of an input, padding included, by their names in a config.

    Attributes:
      text_field: the name of the length of the text.
    """

    text_field: ClassVar[str]

    def __post_init__(self):
        for name, length in vars(self).items():
            most = MAX_GLOBALS if name == "global_length" else math.inf
            if not 1 <= length <= most:
                end = "" if most == math.inf else f" and at most {most}"
                raise ValueError(f"{self}: {name} must be at least 1{end}")

    @property
    def text_length(self) -> int:
        """n, tokens of the text."""
        return getattr(self, self.text_field)


@dataclasses.dataclass(frozen=True)
class Window:
    """One input, and what is needed to read a model's outputs for it.

    Attributes:
      schema: of the format.
      axes: where labels, and further inputs or the dicts that they are in, lie. A label
        that is not named is one number or one a global token. One along the tokens of
        a text may reach beyond the last: it may be by word, and words may have no
        token.
      record: what the input was made of, with an `id`.
      labels: arrays to train on, by name; a task says which.
      unusable: why the window cannot be trained on; None if it can.
      extra: what the model takes besides, arrays by name or dicts of such.
      cut: of what is not whole in it but for the text, such as "questions": (tokens,
        how many of them it has room for).
    """

    schema: ClassVar[Schema]
    axes: ClassVar[Mapping[str, Placed]] = {}

    record: Any
    labels: dict[str, np.ndarray]
    unusable: str | None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    cut: dict[str, tuple[int, int]] = dataclasses.field(
        default_factory=dict, kw_only=True
    )

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of `schema` that the input has, `[length, ...]` by name."""
        return {name: getattr(self, name) for name in self.schema.fields}


def too_long(**lengths: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Those of some (tokens, room) with more tokens than room, as `Window.cut`."""
    return {name: pair for name, pair in lengths.items() if pair[0] > pair[1]}
