"""Accuracy, macro and micro F1 of labels, by scikit-learn (extra "metrics").

Macro F1 is the mean over the labels that some record has or was given; micro F1 is of
all decisions together.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from etc_jax.base import extras
from etc_jax.scoring.result import Scores


def score(
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, Collection[str]],
    unread: Collection[str] = (),
) -> Scores:
    """`accuracy`, `macro_f1` and `micro_f1` of sets of labels, of one label each too.

    Accuracy is the share of records whose set is right as a whole. Where each record
    has one label and is given one, micro F1 is the accuracy.

    Args:
      gold: labels by id.
      predictions: labels by id; a missing one is wrong, and of no label.
      unread: ids of further records that could not be read: wrong, and of no label.

    Raises:
      ValueError: if there is no gold record.
      extras.MissingExtraError: if scikit-learn is not installed.
    """
    if not gold and not unread:
        raise ValueError("gold: at least one record expected, got none")
    pairs = tuple(
        (frozenset(some), frozenset(predictions.get(name, ())))
        for name, some in gold.items()
    )
    # A record without a prediction is wrong, even if it has no label at all.
    hits = sum(
        name in predictions and right == predicted
        for name, (right, predicted) in zip(gold, pairs, strict=True)
    )
    metrics = {"accuracy": hits / (len(gold) + len(unread))}
    # Records are scored by themselves too, and there are few different ones;
    # scikit-learn takes milliseconds a call.
    metrics |= _f1_of_one(pairs) if len(pairs) == 1 else _f1(pairs)
    return Scores.of(metrics, [*gold, *unread], {"label": predictions})


def _f1(pairs: Sequence[tuple[frozenset[str], frozenset[str]]]) -> dict[str, float]:
    """`macro_f1` and `micro_f1` of (gold, given) labels of records."""
    sklearn = extras.needed("sklearn.metrics", extra="metrics", to="score labels")
    labels = sorted({x for pair in pairs for some in pair for x in some})
    metrics = {"macro_f1": 0.0, "micro_f1": 0.0}
    if labels:
        right, predicted = (_matrix(of, labels) for of in zip(*pairs, strict=True))
        options = {"labels": range(len(labels)), "zero_division": 0.0}
        for average in ("macro", "micro"):
            f1 = sklearn.f1_score(right, predicted, average=average, **options)
            metrics[f"{average}_f1"] = float(f1)
    return metrics


_f1_of_one = functools.lru_cache(maxsize=4096)(_f1)


def _matrix(of: Sequence[Collection[str]], labels: list[str]) -> np.ndarray:
    """bool `[records, labels + 1]`: which of them each record has.

    The last column is of no label: scikit-learn takes a single column for one label a
    record, true or false.
    """
    column_of = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(of), len(labels) + 1), bool)
    for row, some in enumerate(of):
        matrix[row, [column_of[x] for x in some]] = True
    return matrix
