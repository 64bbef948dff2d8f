"""What windows hold beside ids, types and structure: labels and further inputs.

A field is an array of each window. One along the long or the global tokens is cut at
the padding in files, and padded again in batches; one of the window itself has the same
shape in all of them. In files a field is flat, its values place by place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

Axis = Literal["long", "global", "window"]

# Between the names on the way to an array in a dict of dicts.
_SEPARATOR = "."
# What every batch has: no further input can be called so.
_RESERVED = (
    *("long_tokens", "global_tokens", "long_types", "global_types"),
    *("structure", "labels", "weights"),
)


class Placed(NamedTuple):
    """Where an array of a window lies.

    Attributes:
      axis: what its first axis runs along, the long or the global tokens; "window": it
        has one shape in all windows.
      padding: its value where there is no token, and in rows without a window.
    """

    axis: Axis
    padding: int = 0


class Field(NamedTuple):
    """What an array of each window is.

    Attributes:
      axis: see `Placed`.
      dtype: name of its type.
      shape: of what is there at each place of the axis.
      padding: see `Placed`.
    """

    axis: Axis
    dtype: str
    shape: tuple[int, ...] = ()
    padding: int = 0

    @property
    def width(self) -> int:
        """Numbers at each place."""
        return math.prod(self.shape)

    def empty(self, rows: int, lengths: Mapping[str, int]) -> np.ndarray:
        """Padding for a batch.

        Args:
          rows: of the batch.
          lengths: "long" and "global" tokens of a row.

        Returns:
          `[rows, length, *shape]`, or `[rows, *shape]` for a field of the window.
        """
        length = () if self.axis == "window" else (lengths[self.axis],)
        return np.full((rows, *length, *self.shape), self.padding, self.dtype)

    def fill(self, batch: np.ndarray, row: int, values: np.ndarray) -> None:
        """Puts one window's values into a row of what `empty` gave.

        Args:
          batch: `[rows, length, *shape]` or `[rows, *shape]`.
          row: of the batch.
          values: flat, as they are in files.
        """
        if self.axis == "window":
            batch[row] = values.reshape(self.shape)
        else:
            places = values.reshape(-1, *self.shape)
            batch[row, : len(places)] = places

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        # A single number is called so since there were no other fields of windows.
        is_number = self.axis == "window" and not self.shape
        kind = "scalar" if is_number else self.axis
        more = {"shape": list(self.shape)} if self.shape else {}
        more |= {"padding": self.padding} if self.padding else {}
        return {"kind": kind, "dtype": self.dtype, **more}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Field:
        """What `to_json` gave.

        Raises:
          KeyError, TypeError, ValueError: if it is none.
        """
        axis = "window" if saved["kind"] == "scalar" else saved["kind"]
        if axis not in ("long", "global", "window"):
            raise ValueError(f"kind {axis!r}")
        shape = tuple(int(x) for x in saved.get("shape", ()))
        return cls(axis, saved["dtype"], shape, int(saved.get("padding", 0)))


def label_fields(window: Any) -> dict[str, Field]:
    """The fields of a window's labels; see `window_arrays.TaskWindow`.

    Raises:
      ValueError: if a label is not where it is said to be, or, if nothing is said of
        it, neither one number nor one a global token.
    """
    axes, g = _axes(window), window.structure.global_length
    found = {}
    for name, value in sorted(window.labels.items()):
        what, shape = f"label {name!r}", np.shape(value)
        if name not in axes and shape not in ((), (g,)):
            raise ValueError(
                f"{what} has shape {shape}, expected () or one a global token: ({g},)"
            )
        placed = axes.get(name, Placed("global" if shape else "window"))
        found[name] = _field(what, value, placed, window)
    return found


def extra_fields(window: Any) -> dict[str, Field]:
    """The fields of a window's further inputs, by the names of `extra_arrays`.

    Raises:
      ValueError: if one is not where it is said to be, or nothing is said of it, or it
        is called as something that every batch has.
    """
    axes = _axes(window)
    found = {}
    for name, value in sorted(extra_arrays(window).items()):
        group = name.partition(_SEPARATOR)[0]
        if group in _RESERVED or group not in axes:
            raise ValueError(
                f"extra input {group!r} "
                + ("is in every batch" if group in _RESERVED else "has no axis")
                + "; choose another name, or say in the window's axes where it lies"
            )
        found[name] = _field(f"extra input {name!r}", value, axes[group], window)
    return found


def extra_arrays(window: Any) -> dict[str, np.ndarray]:
    """The further inputs of a window; those in a dict "a" are called "a.NAME"."""
    return dict(_flat(getattr(window, "extra", {})))


def nested(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Dicts of dicts again; see `extra_arrays`."""
    found: dict[str, Any] = {}
    for path, array in arrays.items():
        *groups, name = path.split(_SEPARATOR)
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = array
    return found


def _axes(window: Any) -> Mapping[str, Placed]:
    return getattr(window, "axes", {})


def _flat(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}{_SEPARATOR}")
        else:
            yield f"{before}{name}", value


def _field(what: str, value: np.ndarray, placed: Placed, window: Any) -> Field:
    shape, dtype = np.shape(value), np.asarray(value).dtype.name
    if placed.axis == "window":
        return Field("window", dtype, shape, placed.padding)
    length = getattr(window.structure, f"{placed.axis}_length")
    if shape[:1] != (length,):
        raise ValueError(
            f"{what} has shape {shape}, expected one a {placed.axis} token: ({length},)"
        )
    return Field(placed.axis, dtype, shape[1:], placed.padding)
