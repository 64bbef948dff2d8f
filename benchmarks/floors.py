"""Limits that a benchmark's metrics are held to, printed beside what was found."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks import report

BELOW_EXIT_CODE = 1


@dataclasses.dataclass(frozen=True)
class Floor:
    """One metric and its limit.

    Attributes:
      name: of the metric.
      got: what was measured.
      limit: that it is held to.
      at_most: whether the limit is the largest allowed value, or the smallest.
    """

    name: str
    got: float
    limit: float
    at_most: bool

    @property
    def holds(self) -> bool:
        # So that NaN holds nowhere.
        return self.got <= self.limit if self.at_most else self.got >= self.limit


def table(found: Sequence[Floor]) -> str:
    """Metrics, limits and verdicts as text."""
    rows = [
        [
            f.name,
            f"{f.got:.3f}",
            f"{'at most' if f.at_most else 'at least'} {f.limit:g}",
            "holds" if f.holds else "FAILS",
        ]
        for f in found
    ]
    return report.table(["floor", "got", "limit", ""], rows)


def rows(found: Sequence[Floor]) -> list[dict[str, Any]]:
    """Floors ready for JSON."""
    return [dataclasses.asdict(f) | {"holds": f.holds} for f in found]


def exit_code(found: Sequence[Floor]) -> int:
    """0 if all hold, else `BELOW_EXIT_CODE`."""
    return 0 if all(f.holds for f in found) else BELOW_EXIT_CODE
