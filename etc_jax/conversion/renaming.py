"""Names of a checkpoint's arrays as the rows of a table know them, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

# Field of a row's names: the number of a layer.
LAYER = "layer"


class Renamed(Mapping[str, np.ndarray]):
    """Arrays of a checkpoint under other names.

    Args:
      source: original name -> array; may be lazy.
      rename: from an original name to the other one; None: it is left out.
      back: from another name to the original one, for what the checkpoint lacks.

    Raises:
      ValueError: if two original names become one.
    """

    def __init__(
        self,
        source: Mapping[str, np.ndarray],
        rename: Callable[[str], str | None],
        back: Callable[[str], str] = str,
    ):
        self._source, self._back = source, back
        self._originals: dict[str, str] = {}
        for original in source:
            if (name := rename(original)) is None:
                continue
            if name in self._originals:
                first, second = (
                    original_name(source, x) for x in (self._originals[name], original)
                )
                raise ValueError(
                    f"the checkpoint has both {first!r} and {second!r}, which mean the "
                    "same; remove one of them"
                )
            self._originals[name] = original

    def __len__(self) -> int:
        return len(self._originals)

    def __iter__(self) -> Iterator[str]:
        return iter(self._originals)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._source[self._originals[name]]

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one array; it is read only if the source does not give its shape."""
        shape_fn = getattr(self._source, "shape", None)
        original = self._originals[name]
        return shape_fn(original) if shape_fn else self._source[original].shape

    def size(self, name: str, axis: int) -> int | None:
        """Of one axis of an array; None: there is no such array, or no such axis."""
        shape = self.shape(name) if name in self else ()
        return shape[axis] if len(shape) > axis else None

    def original(self, name: str) -> str:
        """What the checkpoint calls an array, or would call it, by all renamings."""
        is_renamed = name in self._originals
        name = self._originals[name] if is_renamed else self._back(name)
        return original_name(self._source, name)


def original_name(source: Mapping[str, np.ndarray], name: str) -> str:
    """What the checkpoint calls an array, of any shape, that `source` has as `name`."""
    original_fn = getattr(source, "original", None)
    return original_fn(name) if original_fn else name


def tied(weights: Renamed, names: Sequence[str]) -> Renamed:
    """The weights with one array for some names, under the first of them.

    Checkpoints have a shared array under any of its names, or under several.

    Raises:
      ValueError: if two of the names have different arrays.
    """
    present = [name for name in names if name in weights]
    for name in present[1:]:
        if not np.array_equal(weights[name], weights[present[0]]):
            first, second = map(weights.original, (present[0], name))
            raise ValueError(
                f"{second} differs from {first}, but here they are one array; a model "
                "with two has no counterpart"
            )
    again, taken = set(present[1:]), present[:1]

    def rename(name: str) -> str | None:
        return None if name in again else names[0] if name in taken else name

    return Renamed(weights, rename)


class LayerRuns:
    """Names of layers by their place in a run that is repeated, and back.

    `start.7.end` of runs of three layers is `start.run1.2.end`: a table has a row for
    each layer of the run, whose `{layer}` is the number of the run. Layers from `top`
    on are of other kind: with `top` 6, `start.7.end` is `start.top.1.end`. Runs may
    begin after the `first` layers, which keep their names.

    Args:
      start: what stands before the number of a layer.
      length: layers of a run.
      top: number of the first layer of another kind; None: there is none.
      first: layers before the runs.
    """

    TOP: ClassVar[str] = "top"

    def __init__(self, start: str, length: int, top: int | None = None, first: int = 0):
        self.start, self.length, self.top, self.first = start, length, top, first
        start = re.escape(start)
        self._layer = re.compile(rf"{start}\.(\d+)\.(.*)")
        self._of_run = re.compile(rf"{start}\.run(\d+)\.(\d+)\.(.*)")
        self._of_top = re.compile(rf"{start}\.{self.TOP}\.(\d+)\.(.*)")

    def source(self, i: int) -> str:
        """What the rows of a run's layer `i` start with."""
        return f"{self.start}.run{i}.{{{LAYER}}}."

    def top_source(self) -> str:
        """What the rows of the layers of another kind start with."""
        return f"{self.start}.{self.TOP}.{{{LAYER}}}."

    def split(self, name: str) -> str:
        """A name of the checkpoint as rows know it."""
        if match := self._layer.fullmatch(name):
            if self.top is not None and int(match[1]) >= self.top:
                layer = int(match[1]) - self.top
                return f"{self.start}.{self.TOP}.{layer}.{match[2]}"
            if int(match[1]) < self.first:
                return name
            # Layer i of the run, which is repeated `run` times before it.
            run, i = divmod(int(match[1]) - self.first, self.length)
            return f"{self.start}.run{i}.{run}.{match[2]}"
        return name

    def join(self, name: str) -> str:
        """The inverse of `split`."""
        if match := self._of_run.fullmatch(name):
            layer = self.first + int(match[2]) * self.length + int(match[1])
            return f"{self.start}.{layer}.{match[3]}"
        if match := self._of_top.fullmatch(name):
            return f"{self.start}.{int(match[1]) + self.top}.{match[2]}"
        return name


def shortest_run(layers: Sequence[Any]) -> tuple[Any, ...]:
    """The shortest run that the layers are repeats of."""
    for length in range(1, len(layers) + 1):
        run = tuple(layers[:length])
        if run * (len(layers) // length) == tuple(layers):
            return run
    return tuple(layers)
