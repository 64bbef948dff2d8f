"""Accuracy, and F1 of one class, of labels."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple

from etc_jax.scoring.answers import overlap
from etc_jax.scoring.result import Scores


class Confusion(NamedTuple):
    """How often each label was given for each gold label.

    Attributes:
      labels: all that are gold or were given, sorted.
      counts: by gold label, by the label that was given; both in that order.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def confusion(gold: Mapping[str, str], predictions: Mapping[str, str]) -> Confusion:
    """The confusion matrix of records that have both a gold and a given label.

    Args:
      gold: label by id.
      predictions: label by id.
    """
    counts = collections.Counter(
        (label, predictions[name])
        for name, label in gold.items()
        if name in predictions
    )
    labels = tuple(sorted({label for pair in counts for label in pair}))
    return Confusion(labels, tuple(tuple(counts[a, b] for b in labels) for a in labels))


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
    right = sum(label == predicted for label, predicted in pairs)
    of_positive = overlap(
        sum(label == predicted == positive for label, predicted in pairs),
        sum(predicted == positive for _, predicted in pairs),
        sum(label == positive for label, _ in pairs),
    )
    metrics = {"accuracy": right / len(gold), "f1": of_positive.f1}
    return Scores.of(metrics, list(gold), {"label": predictions})
