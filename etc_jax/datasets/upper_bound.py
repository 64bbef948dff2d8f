"""What gold labels reach: their metrics, and what records lose on the way to inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from etc_jax.data.windows.window import Window
from etc_jax.datasets.records import Problems
from etc_jax.scoring.result import Scores


class Loss(NamedTuple):
    """Something that a record lost, and why."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class UpperBound:
    """The official metrics of gold labels.

    Attributes:
      scores: of all records that can be read.
      losses: why a point is missing; empty if and only if none is.
      problems: what was wrong with the files.
    """

    scores: Scores
    losses: tuple[Loss, ...]
    problems: Problems

    def report(self) -> str:
        """Everything, as lines."""
        lines = [f"  {loss.id}: {loss.reason}" for loss in self.losses]
        parts = [self.problems.report(), self.scores.report()]
        return "\n".join([*parts, f"{len(lines)} losses", *lines])


def nothing_lost(windows: Sequence[Window], prediction: Any) -> Iterator[str]:
    """`FeatureConverter.why_lost` of a data set whose inputs keep every gold answer: no
    reason."""
    del windows, prediction
    return iter(())
