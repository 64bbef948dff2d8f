"""What a ceiling is: figures, and why a point is missing; see `tasks.ceiling`."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from etc_jax.scoring.result import Scores
from tasks.records import Problems


class Loss(NamedTuple):
    """Something that a record lost, and why."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """The official figures of gold labels.

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
