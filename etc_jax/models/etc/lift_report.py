"""What lifting did with every array of both sides, for people and for the record."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_LAYER = re.compile(r"layers_\d+/")


def describe_values(value: Any) -> str:
    """How an array begins, seen from its values: "all 0", or random with a spread."""
    array = np.asarray(value, np.float64)
    if not array.size:
        return "empty"
    if np.ptp(array) == 0:
        return f"all {array.flat[0]:g}"
    return f"random, mean {array.mean():.2g}, standard deviation {array.std():.2g}"


@dataclasses.dataclass(frozen=True)
class LiftReport:
    """What a lift did.

    Attributes:
      lifted: our path -> names of the source that it was made of.
      new: our path -> how it begins, for arrays that nothing was lifted into; for the
        new rows of a table that was lifted in part, "PATH[rows]".
      left_over: name of the source -> why nothing was made of it.
      choices: where model and source differ on purpose.
    """

    lifted: Mapping[str, tuple[str, ...]]
    new: Mapping[str, str]
    left_over: Mapping[str, str]
    choices: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "choices": list(self.choices),
            "lifted": {path: list(names) for path, names in self.lifted.items()},
            "new": dict(self.new),
            "left_over": dict(self.left_over),
        }

    def text(self) -> str:
        """For people; the layers of an unrolled stack are reported as one."""
        lines = [f"{len(self.lifted)} arrays lifted"]
        for title, reasons in (
            ("new", self.new),
            ("left over in the source", self.left_over),
        ):
            lines.append(f"{len(reasons)} {title}:")
            grouped = {
                _LAYER.sub("layers_*/", name): how for name, how in reasons.items()
            }
            lines += [f"  {name}: {how}" for name, how in grouped.items()] or ["  none"]
        return "\n".join([*self.choices, *lines])
