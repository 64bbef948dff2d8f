"""How right answers are, each by itself and all together, by the official metrics."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.datasets.explained import Explained
from etc_jax.datasets.task import Task
from etc_jax.prediction.model_files import TrainedModel
from etc_jax.scoring.classification import Confusion
from etc_jax.scoring.result import Scores
from etc_jax.training.checkpoints.folder import FOLDER


class Answered(NamedTuple):
    """A record that has been answered.

    Attributes:
      explained: for a reader.
      gold: what `Task.score` wants of the record; None if it has no gold answer.
      prediction: of the record, as `Task.official` takes it.
    """

    explained: Explained
    gold: Any
    prediction: Any


class Verdict(NamedTuple):
    """How right one answer is.

    Attributes:
      share: from 0, wrong, to 1, right; None if one record alone does not say.
      metrics: the official ones of this record alone, by name.
    """

    share: float | None
    metrics: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Judged:
    """How right some answers are.

    Attributes:
      metric: name of the main metric.
      verdicts: of each answer, in order; None where there is no gold answer.
      scores: of all answers that have a verdict.
      confusion: of the same; None unless records have one label each.
    """

    metric: str
    verdicts: tuple[Verdict | None, ...]
    scores: Scores
    confusion: Confusion | None = None


def about(model: TrainedModel) -> dict[str, str]:
    """What made the answers, for the head of a page: no more of a path than a name."""
    folder = pathlib.PurePath(model.folder)
    if folder.parent.name == FOLDER:
        folder = folder.parent.parent
    return {
        "Model": model.config.family,
        "Run": f"{folder.name}, step {model.step:,}",
        "Date": datetime.date.today().isoformat(),
    }


def check(task: Task, records: Iterable[Any]) -> None:
    """Scores an empty answer, which raises what scoring raises before long work.

    Args:
      task: the data set.
      records: the first ones.

    Raises:
      ValueError: if a gold answer cannot be scored, or a package is not installed.
    """
    for record in records:
        if (gold := task.gold(record)) is not None:
            task.score([gold], task.official({record.id: task.no_answer}))


def judged(task: Task, answers: Sequence[Answered]) -> Judged | None:
    """The official metrics of each record alone, and of all; None without gold answers.

    Of records with one id the last counts for the metrics of all.

    Raises:
      ValueError: if a gold answer cannot be scored; see `DataSet.score`.
    """
    with_gold = {a.explained.id: a for a in answers if a.gold is not None}
    if not with_gold:
        return None
    gold = [a.gold for a in with_gold.values()]
    content = task.official({name: a.prediction for name, a in with_gold.items()})
    return Judged(
        task.metric,
        tuple(_verdict(task, a, content) for a in answers),
        task.score(gold, content),
        None if task.confusion is None else task.confusion(gold, content),
    )


def _verdict(task: Task, answer: Answered, content: Any) -> Verdict | None:
    """That of one answer, given the official content of all."""
    name, gold, prediction = answer.explained.id, answer.gold, answer.prediction
    if gold is None:
        return None
    alone = (
        {name: content[name]} if task.together else task.official({name: prediction})
    )
    metrics = task.score([gold], alone).metrics
    if task.right_share is not None:
        return Verdict(task.right_share(gold, metrics), metrics)
    return Verdict(metrics[task.metric], metrics)
