"""Accuracy of chosen options, over all questions and over the hard ones (QuALITY)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.scoring.result import Scores


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, int]) -> Scores:
    """`accuracy`, and `hard_accuracy` if there are hard questions.

    Args:
      gold: of each question `id`, `label`, the number of the right option, None if no
        prediction is right, and `hard`, whether it is of the hard subset.
      predictions: numbers of options by id; a missing one is wrong.

    Raises:
      ValueError: if there is no gold question.
    """
    if not gold:
        raise ValueError("gold: at least one question expected, got none")

    def accuracy(of: Sequence[Mapping[str, Any]]) -> float:
        right = (
            x["label"] is not None and predictions.get(x["id"]) == x["label"]
            for x in of
        )
        return sum(right) / len(of)

    metrics = {"accuracy": accuracy(gold)}
    if hard := [x for x in gold if x["hard"]]:
        metrics["hard_accuracy"] = accuracy(hard)
    return Scores.of(metrics, [x["id"] for x in gold], {"option": predictions})
