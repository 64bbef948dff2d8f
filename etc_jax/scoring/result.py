"""The result of a metric: its values, and whose predictions are missing."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

IntervalsFn = Callable[[int], Mapping[str, tuple[float, float]]]

_NAMED_IDS = 5


@dataclasses.dataclass(frozen=True)
class Scores:
    """Metrics over all gold records, and where gold and predictions do not meet.

    Attributes:
      metrics: each metric in 0..1, by its official name.
      count: gold records, all of which the metrics are of: means over them, or metrics
        of all together.
      missing: for each part of a prediction, the gold ids that have none. They count
        as wrong, as in the official scripts.
      surplus: predicted ids that are not gold. They count nowhere.
      repeated: gold ids that stand there more than once, each counted each time.
      signatures: of metrics that are to be reported with the way they were worked out,
        by their names.
      intervals_fn: (further records, all of them wrong) -> (low, high) of metrics, by
        name: confidence intervals at 95 %; None without. It takes time.
      conventions: by name, a function to the metrics of the same texts as others work
        them out, to be compared with what they report. Each takes time.
    """

    metrics: Mapping[str, float]
    count: int
    missing: Mapping[str, tuple[str, ...]]
    surplus: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    signatures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    intervals_fn: IntervalsFn | None = dataclasses.field(default=None, compare=False)
    conventions: Mapping[str, Callable[[], Scores]] = dataclasses.field(
        default_factory=dict, compare=False
    )

    @classmethod
    def of(
        cls,
        metrics: Mapping[str, float],
        gold: Sequence[str],
        predictions: Mapping[str, Collection[str]],
        signatures: Mapping[str, str] | None = None,
    ) -> Scores:
        """Metrics, and what comparing ids shows.

        Args:
          metrics: by name.
          gold: ids of the gold records, in order.
          predictions: ids of each part of the predictions, by its name.
          signatures: see the class; None: there are none.
        """
        counts = collections.Counter(gold)
        return cls(
            metrics,
            len(gold),
            missing={
                part: tuple(i for i in counts if i not in ids)
                for part, ids in predictions.items()
            },
            surplus=tuple(
                {i: 0 for ids in predictions.values() for i in ids if i not in counts}
            ),
            repeated=tuple(i for i, n in counts.items() if n > 1),
            signatures=signatures or {},
        )

    def joined(self, other: Scores) -> Scores:
        """The same with the metrics of another one, of the same records, besides."""
        return dataclasses.replace(
            self,
            metrics={**self.metrics, **other.metrics},
            signatures={**self.signatures, **other.signatures},
            intervals_fn=self.intervals_fn or other.intervals_fn,
            conventions={**self.conventions, **other.conventions},
        )

    def problems(self) -> list[str]:
        """A line for each way in which gold and predictions do not meet."""
        lines = [
            f"{len(ids)} of {self.count} gold records have no {part}, which counts as "
            f"wrong: {named(ids)}"
            for part, ids in self.missing.items()
            if ids
        ]
        if ids := self.surplus:
            lines.append(
                f"{len(ids)} predictions are for no gold record and count nowhere: "
                f"{named(ids)}"
            )
        if ids := self.repeated:
            lines.append(
                f"{len(ids)} gold ids occur more than once and count each time: "
                f"{named(ids)}"
            )
        return lines

    def report(self) -> str:
        """The metrics in per cent, a line each; then signatures and problems."""
        width = max(map(len, self.metrics))
        lines = [
            f"{name:{width}}  {100 * value:6.2f}"
            for name, value in self.metrics.items()
        ]
        lines += [f"signature of {k}: {text}" for k, text in self.signatures.items()]
        return "\n".join([*lines, f"of {self.count} records", *self.problems()])

    def require_same_ids(self) -> None:
        """Raises unless gold and predictions have the same ids, each once.

        Raises:
          ValueError: with all that `problems` names.
        """
        if problems := self.problems():
            raise ValueError(
                "gold and predictions do not have the same ids: " + "; ".join(problems)
            )


def named(ids: Sequence[str]) -> str:
    """The first few ids, and how many more there are."""
    shown = ", ".join(repr(i) for i in ids[:_NAMED_IDS])
    more = len(ids) - _NAMED_IDS
    return f"{shown} and {more} more" if more > 0 else shown
