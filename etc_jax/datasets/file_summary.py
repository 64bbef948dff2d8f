"""A first look at files to be evaluated, before anything long starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from etc_jax.data.digests import digest
from etc_jax.datasets.records import Problems
from etc_jax.datasets.task import Task

_NAMED = 3


@dataclasses.dataclass(frozen=True)
class FileSummary:
    """What some files hold.

    Attributes:
      ids: of the records that can be read, in order.
      unreadable: how many more there are.
      gold: what `Task.score` wants of those that can be read; None if none has it.
      problems: what was wrong, by kind.
      sha256: of each file that was read, in hexadecimal.
    """

    ids: tuple[str, ...]
    unreadable: int
    gold: tuple[dict[str, Any], ...] | None
    problems: Problems
    sha256: tuple[str, ...]


def summarised(task: Task, paths: Sequence[str | os.PathLike]) -> FileSummary:
    """Reads files of a data set from one end to the other.

    Raises:
      BadRecordError: if a file is broken or cut short, or a record is refused: the
        metrics of a part are not those of the file.
      ValueError: if no record can be read, or some have a gold answer and some none.
      OSError: if a file cannot be read.
    """
    problems = Problems()
    ids, gold = [], []
    for record in task.read(paths, problems):
        ids.append(record.id)
        gold.append(task.gold(record))
    if broken := problems.first_of_files() or problems.refused:
        raise broken
    if not ids:
        raise ValueError(f"there is no record to evaluate: {problems.report()}")
    return FileSummary(
        ids=tuple(ids),
        unreadable=problems.lost,
        gold=_all_or_none(ids, gold),
        problems=problems,
        sha256=tuple(digest(path)[1] for path in task.all_read(paths)),
    )


def _all_or_none(ids: Sequence[str], gold: Sequence[Any]) -> tuple | None:
    without = [i for i, answer in zip(ids, gold, strict=True) if answer is None]
    if not without:
        return tuple(gold)
    if len(without) < len(ids):
        raise ValueError(
            f"{len(without)} of {len(ids)} records have no gold answer, such as "
            f"{', '.join(map(repr, without[:_NAMED]))}; evaluate records with and "
            "without one by themselves"
        )
    return None
