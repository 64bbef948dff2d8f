"""From predictions to the official file and the official metrics."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.prediction.answer_parts import Answer
from etc_jax.scoring.result import Scores


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found.

    Attributes:
      setting: of decoding, that the predictions are of.
      official: content of the official prediction file.
      scores: official metrics of each setting; None without gold answers.
      chosen: those of `setting`; None without gold answers.
      thresholds: that the metrics chose, see `Task`; None if they choose none, or
        without gold answers.
    """

    setting: Any
    official: Any
    scores: tuple[Scores, ...] | None
    chosen: Scores | None
    thresholds: Mapping[str, float] | None = None


def settle(
    task: Any,
    answers: Sequence[Answer],
    gold: Sequence[Mapping[str, Any]] | None,
    *,
    settings: Sequence[Any],
    fixed: Any = None,
    unreadable: int = 0,
) -> EvaluationResult:
    """Scores each setting of decoding and takes the best one.

    Of equal ones the first is taken.

    Args:
      task: see `etc_jax.datasets.task.Task`.
      answers: of all records that can be read.
      gold: of the same; None without.
      settings: that the answers have a prediction for each of.
      fixed: the one to take whatever the metrics; None: the best, without gold answers
        that of the task.
      unreadable: further records, all of them wrong; see `Task.unread_gold`.
    """
    predictions = [
        {answer.id: answer.predictions[i] for answer in answers}
        for i in range(len(settings))
    ]
    files = [task.official(of_setting) for of_setting in predictions]
    if gold is None:
        setting = task.setting if fixed is None else fixed
        return EvaluationResult(setting, files[settings.index(setting)], None, None)
    # Means over records need only a larger count.
    if task.unread_gold is None:
        judged = files
        scores = [with_wrong(task.score(gold, file), unreadable) for file in files]
    else:
        gold, judged = _with_unread(task, gold, predictions, unreadable)
        scores = [task.score(gold, file) for file in judged]
    # The first of equal ones.
    index = int(np.argmax([s.metrics[task.metric] for s in scores]))
    if fixed is not None:
        index = settings.index(fixed)
    thresholds = task.thresholds and task.thresholds(gold, judged[index])
    return EvaluationResult(
        settings[index], files[index], tuple(scores), scores[index], thresholds
    )


class Reported(NamedTuple):
    """What is reported with scores, and is worked out once, at the end.

    Attributes:
      intervals: (low, high) of metrics, by name: of 95 %; {} without.
      conventions: by name, the metrics as others work them out.
    """

    intervals: Mapping[str, tuple[float, float]]
    conventions: Mapping[str, Scores]

    @classmethod
    def of(cls, scores: Scores, unreadable: int) -> Reported:
        """What is reported with some scores.

        Args:
          scores: the chosen ones.
          unreadable: records that are wrong in `scores` and are not of `intervals_fn`
            and `conventions`, which are means over records.
        """
        bounds = scores.intervals_fn and scores.intervals_fn(unreadable)
        return cls(
            dict(bounds or {}),
            {
                name: with_wrong(score_fn(), unreadable)
                for name, score_fn in scores.conventions.items()
            },
        )

    def lines(self) -> Iterator[str]:
        """The same for a terminal."""
        if self.intervals:
            bounds = (
                f"{name} {100 * low:.2f} to {100 * high:.2f}"
                for name, (low, high) in self.intervals.items()
            )
            yield f"95 % intervals: {', '.join(bounds)}"
        for name, scores in self.conventions.items():
            metrics = (f"{k} {100 * x:.2f}" for k, x in scores.metrics.items())
            yield f"as {name} has it: {', '.join(metrics)}"

    def as_json(self) -> dict[str, Any]:
        """The same for scores.json."""
        conventions = {
            name: {"metrics": scores.metrics, "signatures": scores.signatures}
            for name, scores in self.conventions.items()
        }
        fields = {"intervals": self.intervals, "conventions": conventions}
        return {name: value for name, value in fields.items() if value}


def of_no_answers(task: Any, summary: Any) -> EvaluationResult:
    """What an evaluation finds in which nothing is answered.

    It tells the names of the metrics, and raises what scoring would, such as that a
    package is not installed, before anything is answered.

    Args:
      task: see `settle`.
      summary: of the files; see `etc_jax.datasets.file_summary.FileSummary`.
    """
    nothing = [task.no_answer] * len(task.settings)
    return settle(
        task,
        [Answer(name, nothing, None) for name in summary.ids],
        summary.gold,
        settings=task.settings,
        unreadable=summary.unreadable,
    )


def _with_unread(task: Any, gold, predictions: Sequence[dict], unreadable: int):
    """(gold, official files) with a wrong answer to each record that was not read."""
    more = [f"unreadable {i}" for i in range(unreadable)]
    wrong = dict.fromkeys(more, task.no_answer)
    gold = [*gold, *map(task.unread_gold, more)]
    return gold, [task.official(p | wrong) for p in predictions]


def with_wrong(scores: Scores, more: int) -> Scores:
    """The metrics with `more` records that are wrong in every respect.

    Metrics are means over records, to which such a record adds 0.
    """
    if not more:
        return scores
    count = scores.count + more
    metrics = {k: v * scores.count / count for k, v in scores.metrics.items()}
    return dataclasses.replace(scores, metrics=metrics, count=count)


def problems_of(answers: Sequence[Answer]) -> dict[str, list[str]]:
    """The messages of records that were no input, by kind."""
    messages = collections.defaultdict(list)
    for answer in answers:
        if answer.problem is not None:
            kind, message = answer.problem
            messages[kind].append(message)
    return dict(messages)
