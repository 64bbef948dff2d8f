"""Accuracy, and F1 of one class, of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.scoring.answers import overlap
from etc_jax.scoring.result import Scores


def score(
    gold: Mapping[str, Any], predictions: Mapping[str, Any], positive: Any = 1
) -> Scores:
    """`accuracy`, and `f1` of the class `positive`.

    Args:
      gold: label by id.
      predictions: label by id; a missing one is wrong, and of no class.
      positive: the class that F1 is of, such as hyperpartisan articles.

    Raises:
      ValueError: if there is no gold label.
    """
    if not gold:
        raise ValueError("gold: at least one label expected, got none")
    pairs = [(label, predictions.get(identity)) for identity, label in gold.items()]
    right = sum(label == given for label, given in pairs)
    found = overlap(
        sum(label == given == positive for label, given in pairs),
        sum(given == positive for _, given in pairs),
        sum(label == positive for label, _ in pairs),
    )
    metrics = {"accuracy": right / len(gold), "f1": found.f1}
    return Scores.of(metrics, list(gold), {"label": predictions})
