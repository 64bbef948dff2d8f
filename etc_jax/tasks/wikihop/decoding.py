"""From what the windows of a WikiHop record say of its candidates to one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.decoding import check_outputs, one_hot, require_gold
from etc_jax.tasks.wikihop.inputs import WikihopWindow
from etc_jax.tasks.wikihop.records import Record
from etc_jax.tasks.wikihop.sequence_inputs import WikihopSequence

Windows = Sequence[WikihopWindow] | Sequence[WikihopSequence]
# (candidate, logit) of each.
Rated = list[tuple[str, float]]


def rated(logits: np.ndarray, windows: Windows) -> list[Rated]:
    """The candidates with their logits, for each window.

    Args:
      logits: `[b, m]`, a number a global token, or a candidate of one sequence; only
        those of candidates count.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or those of candidates are not
        finite.
    """
    m = len(windows[0].is_candidate) if windows else 0
    if windows and np.shape(logits) == (len(windows), m):
        logits = np.where([w.is_candidate for w in windows], np.float64(logits), 0.0)
    check_outputs({"": logits}, windows, {"": (m,)})
    return [
        list(zip(w.record.candidates, row[w.is_candidate].tolist(), strict=True))
        for w, row in zip(windows, logits, strict=True)
    ]


def pool(of_windows: Sequence[Rated]) -> str:
    """The candidate with the largest mean of logits; of equal ones the first.

    Args:
      of_windows: of all windows of a record, as `rated` gives it.
    """
    return of_windows[0][int(np.argmax(mean_logits(of_windows)))][0]


def mean_logits(of_windows: Sequence[Rated]) -> np.ndarray:
    """The mean float64 `[c]` of each candidate's logits over the windows of a record.

    It is the logit of the candidate's mean row.
    """
    logits = [[logit for _, logit in candidates] for candidates in of_windows]
    return np.mean(np.array(logits, np.float64), axis=0)


def official_gold(record: Record) -> dict[str, str] | None:
    """What scoring needs of a record; None without a gold answer."""
    if record.answer is None:
        return None
    return {"id": record.id, "answer": record.answer}


def gold_outputs(windows: Windows) -> np.ndarray:
    """Logits `[b, m]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    return one_hot(windows, "candidate", len(windows[0].is_candidate) if windows else 0)
