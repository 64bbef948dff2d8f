"""Which of the choices of a record is right: from their logits to one of them.

A record has `candidates`: what its choices are called in predictions, in the order of
the logits. Windows tell by `is_candidate` which logits are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from etc_jax.datasets.decoding import (
    check_outputs,
    of_one_setting,
    one_hot,
    require_gold,
    with_records,
)
from etc_jax.datasets.explained import Explained

# (choice, logit) of each.
Rated = list[tuple[Any, float]]


class ChoiceWindow(Protocol):
    """An input with the choices of a record.

    Attributes:
      record: with `candidates`.
      is_candidate: which logits of the input are of its choices, bool `[m]`.
    """

    record: Any

    @property
    def is_candidate(self) -> np.ndarray: ...


def rated(logits: np.ndarray, windows: Sequence[ChoiceWindow]) -> list[Rated]:
    """The choices with their logits, for each window.

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


def pool(of_windows: Sequence[Rated]) -> Any:
    """The choice with the largest mean of logits; of equal ones the first.

    Args:
      of_windows: of all windows of a record, as `rated` gives it.
    """
    return of_windows[0][int(np.argmax(mean_logits(of_windows)))][0]


def mean_logits(of_windows: Sequence[Rated]) -> np.ndarray:
    """The mean float64 `[c]` of each choice's logits over the windows of a record.

    It is the logit of the choice's mean row.
    """
    logits = [[logit for _, logit in candidates] for candidates in of_windows]
    return np.mean(np.array(logits, np.float64), axis=0)


def choice_fields(
    official_gold: Callable[[Any], Any],
    pool_explained: Callable[[Sequence[tuple[Any, Rated]]], Explained],
) -> dict[str, Any]:
    """The fields of a `FeatureConverter` that all data sets with choices share.

    Args:
      official_gold: `DataSet.gold`.
      pool_explained: (record, its choices) of all windows of a record -> what a reader
        is shown.
    """
    return {
        "decode": of_one_setting(rated),
        "explain": with_records(rated),
        "pool": pool,
        "pool_explained": pool_explained,
        "gold_outputs": gold_outputs_of(official_gold),
    }


def gold_outputs_of(
    official_gold: Callable[[Any], Any],
) -> Callable[[Sequence[ChoiceWindow]], np.ndarray]:
    """`FeatureConverter.gold_outputs`: windows to logits `[b, m]` that are sure of
    every label.

    Args:
      official_gold: `DataSet.gold`; a window of a record without one is a ValueError.
    """

    def gold_outputs(windows: Sequence[ChoiceWindow]) -> np.ndarray:
        require_gold(windows, official_gold)
        most = len(windows[0].is_candidate) if windows else 0
        return one_hot(windows, "candidate", most)

    return gold_outputs
