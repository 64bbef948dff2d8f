"""Rows of pairs of texts, several in a row where they have room.

    input_tokens        int32 [b, n]  what is read; 0 in padding
    input_example_ids   int32 [b, n]  1, 2, ... by pair of the row; 0: padding
    target_tokens       int32 [b, m]  what is to be written, with its end token
    target_example_ids  int32 [b, m]  the number of its pair; 0: padding
    cut_tokens          int32 [b]     tokens of the row's pairs that had no room
    global_index        int32 [b, g]  positions of the inputs' first tokens, where
                                      they are global; -1: none

A pair lies in one row of both, and sees nothing of the others. A batch is a function of
the step: nothing is kept between batches.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.data.epochs import EpochReader
from etc_jax.data.schema import Field, Schema
from etc_jax.data.text.packing import best_fit_decreasing
from etc_jax.data.windows.arrays import offsets_of, run_axis
from etc_jax.data.windows.cache import WindowCache

SCHEMA = Schema(
    "seq2seq",
    fields={
        "input_tokens": Field("input"),
        "input_example_ids": Field("input"),
        "target_tokens": Field("target"),
        "target_example_ids": Field("target"),
        "cut_tokens": Field(),
        "global_index": Field("global", padding=-1),
    },
    lengths={
        "input": "input_length",
        "target": "target_length",
        "global": "global_length",
    },
    text=("input", "target"),
    marks={"input": "input_example_ids", "target": "target_example_ids"},
    tables={"input_tokens": "vocab_size", "target_tokens": "vocab_size"},
    positions={"global_index": "input"},
    optional=frozenset(["global_index"]),
)
AXES = SCHEMA.text


def cut_to(tokens: np.ndarray, length: int | None) -> np.ndarray:
    """At most `length` of int `[t]`: the first ones, and the last, which ends a text.

    None: all of them.
    """
    if length is None or len(tokens) <= length:
        return tokens
    return np.append(tokens[: length - 1], tokens[-1:])


@dataclasses.dataclass(frozen=True)
class AxisCounts:
    """What became of the texts on one side of all pairs.

    Attributes:
      tokens, cut: tokens that have room, and that have none.
      cut_texts: texts that had to be cut.
      longest: tokens of the longest text.
      positions: of all rows, padding included.
    """

    tokens: int
    cut: int
    cut_texts: int
    longest: int
    positions: int

    @property
    def fill(self) -> float:
        """Share of the positions that hold a token."""
        return self.tokens / max(self.positions, 1)

    @property
    def cut_share(self) -> float:
        """Share of the tokens that have no room."""
        return self.cut / max(self.tokens + self.cut, 1)


@dataclasses.dataclass(frozen=True)
class PairPlan:
    """Which pairs share a row.

    Attributes:
      pairs: int `[pairs]`, the pairs row by row.
      offsets: int `[rows + 1]`, where each row's pairs begin.
      counts: of each axis, by name.
      longest_target: the pair of the longest target.
    """

    pairs: np.ndarray
    offsets: np.ndarray
    counts: Mapping[str, AxisCounts]
    longest_target: int

    @property
    def num_rows(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> list[int]:
        """The pairs of a row."""
        start, stop = self.offsets[index : index + 2]
        return self.pairs[start:stop].tolist()

    def report(self) -> str:
        """Rows, padding and what is cut, a line each."""
        lines = [f"{len(self.pairs)} pairs in {self.num_rows} rows"]
        lines += [
            f"{axis}s: {x.fill:.1%} of the positions hold a token, {x.cut_share:.2%} "
            f"of the tokens are cut off, of {x.cut_texts} texts; the longest has "
            f"{x.longest} tokens"
            for axis, x in self.counts.items()
        ]
        return "\n".join(lines)


def plan_rows(
    cache: WindowCache, lengths: Mapping[str, int], *, packed: bool
) -> PairPlan:
    """Puts every pair of a cache into a row.

    Args:
      cache: of inputs in format "text_to_text", of any length.
      lengths: of a row of each axis; a longer text is cut.
      packed: as many pairs as fit share a row, the largest first, each in the fullest
        row that has room for both of its texts; False: a row has one pair.
    """
    # Tokens of each text: int [pairs].
    whole = {axis: np.diff(cache.arrays[offsets_of(axis)]) for axis in AXES}
    fitting = {axis: np.minimum(x, lengths[axis]) for axis, x in whole.items()}
    rows = [np.array([i]) for i in range(cache.num_windows)]
    if packed:
        # The packing counts in positions of the longer axis, which comes first.
        first, second = sorted(AXES, key=lambda axis: -lengths[axis])
        sizes = lengths[first], lengths[second]
        rows = best_fit_decreasing(fitting[first], fitting[second], *sizes)
    counts = {
        axis: AxisCounts(
            tokens=int(fitting[axis].sum()),
            cut=int((whole[axis] - fitting[axis]).sum()),
            cut_texts=int((whole[axis] > lengths[axis]).sum()),
            longest=int(whole[axis].max()),
            positions=len(rows) * lengths[axis],
        )
        for axis in AXES
    }
    offsets = np.cumsum([0, *map(len, rows)])
    return PairPlan(
        np.concatenate(rows), offsets, counts, int(np.argmax(whole["target"]))
    )


class PairReader(EpochReader):
    """Batches of the pairs of a cache; its items are rows, which pairs may share.

    Attributes:
      plan: which pairs share a row.
    """

    def __init__(
        self,
        cache: WindowCache,
        *,
        lengths: Mapping[str, int],
        packed: bool = True,
        global_tokens: int = 0,
        **order: Any,
    ):
        """See the class.

        Args:
          cache: of inputs in format "text_to_text"; see `plan_rows`.
          lengths: of a row of each axis.
          packed: whether pairs share rows; see `plan_rows`.
          global_tokens: so many first tokens of each input are global; 0: batches have
            no `global_index`.
          **order: batch_size, seed and evaluation of `EpochReader`.

        Raises:
          ValueError: if a number is out of range, or rows hold more global tokens than
            there is room for.
        """
        self.plan = plan_rows(cache, lengths, packed=packed)
        self._cache, self._lengths = cache, dict(lengths)
        self._globals = global_tokens
        _check_globals(self.plan, global_tokens, lengths)
        super().__init__(self.plan.num_rows, **order)

    def _batch(self, items: Sequence[int | None]) -> dict[str, Any]:
        batch = SCHEMA.empty(len(items), {"global": 0, **self._lengths})
        if not self._globals:
            del batch["global_index"]
        for row, item in enumerate(items):
            if item is not None:
                self._fill(batch, row, self.plan.row(item))
        return batch

    def _fill(self, batch: dict[str, np.ndarray], row: int, pairs: list[int]) -> None:
        ends = dict.fromkeys(AXES, 0)
        starts = []
        for number, pair in enumerate(pairs, 1):
            window = self._cache.window(pair)
            starts.append(ends["input"])
            for axis in AXES:
                whole = window[f"{axis}_tokens"]
                tokens = cut_to(whole, self._lengths[axis])
                span = slice(ends[axis], ends[axis] + len(tokens))
                batch[f"{axis}_tokens"][row, span] = tokens
                # The padding of a prefix keeps the example id 0.
                marks = cut_to(_marks(window, axis), self._lengths[axis])
                batch[f"{axis}_example_ids"][row, span] = number * marks
                batch["cut_tokens"][row] += len(whole) - len(tokens)
                ends[axis] = span.stop
        if self._globals:
            global_index = _first_positions([*starts, ends["input"]], self._globals)
            batch["global_index"][row, : len(global_index)] = global_index


def _marks(window: Mapping[str, np.ndarray], axis: str) -> np.ndarray:
    """int `[tokens]` of a text: 1, and 0 for the padding of a prefix."""
    name = f"{axis}_example_ids"
    if name not in window:
        return np.ones(len(window[f"{axis}_tokens"]), np.int32)
    return np.repeat(window[name], window[f"{run_axis(axis)}_lengths"])


def _first_positions(bounds: list[int], count: int) -> list[int]:
    """The first `count` positions of each text, which lie from bound to bound."""
    # (start, stop) of each text.
    texts = itertools.pairwise(bounds)
    return [position for a, b in texts for position in range(a, min(a + count, b))]


def _check_globals(plan: PairPlan, count: int, lengths: Mapping[str, int]) -> None:
    most = count * int(np.diff(plan.offsets).max())
    if count and most > lengths["global"]:
        raise ValueError(
            f"rows hold up to {most} global tokens, {count} of each pair, but "
            f"data.global_length is {lengths['global']}; raise it to {most}, or set "
            "objective.packed=False"
        )
