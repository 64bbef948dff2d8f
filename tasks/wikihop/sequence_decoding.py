"""From what windows of a WikiHop record say of its candidates to one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.wikihop.decoding import chosen_logits, sure_logits
from tasks.wikihop.sequence_inputs import WikihopSequence

# (candidate, logit) of each.
Rated = list[tuple[str, float]]


def decode_each(
    logits: np.ndarray,
    windows: Sequence[WikihopSequence],
    settings: Sequence[None] = (None,),
) -> list[list[Rated]]:
    """The candidates with their logits, of each setting, for each window.

    Args:
      logits: `[b, m]`, a number a candidate, of which those of padding do not count.
      windows: as `features` made them, in order.
      settings: of which there is one.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    rows = candidate_logits(logits, windows)
    rated = [
        list(zip(window.record.candidates, row.tolist(), strict=True))
        for window, row in zip(windows, rows, strict=True)
    ]
    return [[of_window] * len(settings) for of_window in rated]


def candidate_logits(
    logits: np.ndarray, windows: Sequence[WikihopSequence]
) -> list[np.ndarray]:
    """Of each window the logits of its candidates, in their order, as float64.

    Raises:
      ValueError: see `decode_each`.
    """
    return chosen_logits(logits, windows, [w.extra["candidates"] >= 0 for w in windows])


def pool(of_windows: Sequence[Rated]) -> str:
    """The candidate with the largest mean of logits; of equal ones the first.

    Args:
      of_windows: of all windows of a record, as `decode_each` gives it.
    """
    means = pooled([[logit for _, logit in rated] for rated in of_windows])
    return of_windows[0][int(np.argmax(means))][0]


def pooled(of_windows: Sequence[Sequence[float]]) -> np.ndarray:
    """The mean float64 `[c]` of each candidate's logits over the windows of a record.

    It is the logit of the candidate's mean row.
    """
    return np.mean(np.array(of_windows, np.float64), axis=0)


def gold_outputs(windows: Sequence[WikihopSequence]) -> np.ndarray:
    """Logits `[b, m]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    return sure_logits(windows, len(windows[0].extra["candidates"]) if windows else 0)
