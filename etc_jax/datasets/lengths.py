"""How long inputs are, counted."""

from __future__ import annotations

import collections
import math
from fractions import Fraction

import numpy as np

_CHUNK = 1 << 20


class Lengths:
    """How often each length came up.

    That is all that percentiles need, and it is small however many lengths there are.
    """

    def __init__(self):
        self._counts: collections.Counter[int] = collections.Counter()

    def add(self, length: int) -> None:
        """Counts one."""
        self._counts[length] += 1

    def add_between(self, offsets: np.ndarray, of: np.ndarray | None = None) -> None:
        """Counts the distances of neighbours, a piece of the array at a time.

        Args:
          offsets: int `[k + 1]`, ascending.
          of: what the offsets are positions of; None: of themselves.
        """
        for start in range(0, len(offsets) - 1, _CHUNK):
            # One more: neighbours of two chunks have a distance too.
            part = offsets[start : start + _CHUNK + 1]
            lengths = np.diff(part if of is None else of[part])
            counts = zip(*np.unique(lengths, return_counts=True), strict=True)
            self._counts.update({int(length): int(count) for length, count in counts})

    @property
    def number(self) -> int:
        return self._counts.total()

    @property
    def total(self) -> int:
        return sum(length * count for length, count in self._counts.items())

    def over(self, length: int) -> int:
        """How many are longer."""
        return sum(count for x, count in self._counts.items() if x > length)

    def beyond(self, limit: int | None, what: str) -> str | None:
        """Which of them a limit cuts, for a user.

        Args:
          limit: tokens that are read; None: any number.
          what: names them, as "texts".

        Returns:
          "2 of 3 texts have more than the 10 tokens that the model reads, up to 32";
          None if none is longer.
        """
        if limit is None or not (longer := self.over(limit)):
            return None
        return (
            f"{longer} of {self.number} {what} have more than the {limit} tokens that "
            f"the model reads, up to {max(self._counts)}"
        )

    def percentile(self, percent: float) -> int:
        """The smallest length that so many of a hundred are not above.

        It is one that came up; 50 gives the median (the lower one of an even number),
        100 the longest.

        Raises:
          ValueError: if nothing was counted, or it is not over 0 and up to 100.
        """
        if not (self._counts and 0 < percent <= 100):
            raise ValueError(
                f"percentile {percent} of {self.number} lengths; expected over 0, up "
                "to 100, of at least one"
            )
        # As it is spelled: 99.9 has no exact float.
        rank = math.ceil(Fraction(str(percent)) * self.number / 100)
        for length in sorted(self._counts):
            rank -= self._counts[length]
            if rank <= 0:
                return length
        raise AssertionError("more than all of them")
