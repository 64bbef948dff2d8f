"""What a ceiling is: figures, and why a point is missing; see `tasks.ceiling`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import Prediction, Task
from etc_jax.formats.structured import Sizes, Window
from etc_jax.scoring.result import Scores


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


def ceiling_of(
    task: Task,
    gold_outputs_fn: Callable[[Sequence[Window]], Any],
    paths: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    sizes: Sizes,
    losses_fn: Callable[[Sequence[Window], Prediction], Iterator[str]] = (
        lambda windows, prediction: iter(())
    ),
) -> Ceiling:
    """The ceiling of a task's files.

    Args:
      task: the data set.
      gold_outputs_fn: windows -> outputs of a model that is sure of every label.
      paths: of its files.
      tokenizer: as for its inputs.
      sizes: of an input.
      losses_fn: (windows of a record, its prediction) -> why that is not the gold one.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions = {}
    for record in task.read(paths, problems):
        if (of_record := task.gold(record)) is None:
            raise ValueError(f"{record.id!r} has no gold answer")
        gold.append(of_record)
        try:
            windows = task.features(record, tokenizer, sizes)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
            predictions[record.id] = task.no_answer
            continue
        decoded = task.decode(gold_outputs_fn(windows), windows, (task.setting,))
        [prediction] = task.predictions(decoded)
        predictions[record.id] = prediction
        losses += [Loss(record.id, why) for why in losses_fn(windows, prediction)]
    scores = task.score(gold, task.official(predictions))
    return Ceiling(scores, tuple(losses), problems)
