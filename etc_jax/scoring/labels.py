"""Accuracy, macro and micro F1 of labels, by scikit-learn (extra "metrics").

Macro F1 is the mean over the labels that some record has or was given; micro F1 is of
all decisions together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from etc_jax import extras
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
    sklearn = extras.needed("sklearn.metrics", extra="metrics", to="score labels")
    given = {name: predictions.get(name, ()) for name in gold}
    labels = sorted({x for of in (gold, given) for some in of.values() for x in some})
    right, found = (_matrix(of, labels) for of in (gold, given))
    # A record without a prediction is wrong, even if it has no label at all.
    hits = sum(i in predictions and {*gold[i]} == {*given[i]} for i in gold)
    metrics = {"accuracy": hits / (len(gold) + len(unread))}
    for average in ("macro", "micro"):
        metrics[f"{average}_f1"] = 0.0
        if labels:
            metrics[f"{average}_f1"] = float(
                sklearn.f1_score(
                    right,
                    found,
                    labels=range(len(labels)),
                    average=average,
                    zero_division=0.0,
                )
            )
    return Scores.of(metrics, [*gold, *unread], {"label": predictions})


def _matrix(of: Mapping[str, Collection[str]], labels: list[str]) -> np.ndarray:
    """bool `[records, labels + 1]`: which of them each record has.

    The last column is of no label: scikit-learn takes a single column for one label a
    record, true or false.
    """
    place = {label: i for i, label in enumerate(labels)}
    made = np.zeros((len(of), len(labels) + 1), bool)
    for row, some in enumerate(of.values()):
        made[row, [place[x] for x in some]] = True
    return made
