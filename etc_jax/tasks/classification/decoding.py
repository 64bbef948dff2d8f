"""From logits of labels to a label, or to any number of them, and to metrics.

Where there may be any number, a label is given if its probability, a sigmoid, is above
a half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.decoding import SURE, check_outputs, one_hot, require_gold
from etc_jax.scoring import classification as scoring, labels as labels_scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.classification.inputs import Labelled, TextWindow

# The prediction for a text that is no input: no label.
NO_LABEL = ""


def labels_of(logits: np.ndarray, windows: Sequence[TextWindow]) -> list[str]:
    """The label of each window with the largest logit, the first of equal ones.

    Args:
      logits: `[b, c]`, in the order of `record.labels`.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    check_logits(logits, windows)
    return [
        window.record.labels[int(np.argmax(row))]
        for window, row in zip(windows, logits, strict=True)
    ]


def label_sets_of(logits: np.ndarray, windows: Sequence[TextWindow]) -> list[list[str]]:
    """The labels of each window with a logit above 0, in the order of all.

    Arguments and errors are those of `labels_of`, logits `[b, c]`.
    """
    check_logits(logits, windows)
    return [
        [x for x, logit in zip(window.record.labels, row, strict=True) if logit > 0]
        for window, row in zip(windows, logits, strict=True)
    ]


def check_logits(logits: np.ndarray, windows: Sequence[TextWindow]) -> None:
    """Raises ValueError unless logits are `[b, c]`, finite: c labels of each window."""
    classes = len(windows[0].record.labels) if windows else 0
    check_outputs({"": logits}, windows, {"": (classes,)})


# --- metrics --------------------------------------------------------------------------


def official_gold(record: Labelled) -> dict[str, Any] | None:
    """What scoring needs of a record; None without a gold label."""
    if record.label is None:
        return None
    return {"id": record.id, "label": record.label}


def unread_gold(name: str, *, positive: str) -> dict[str, str]:
    """What scoring takes for a record that could not be read: one that was not found.

    Args:
      name: stands for its id.
      positive: the label that F1 is of.
    """
    return {"id": name, "label": positive}


def unknown_gold(name: str) -> dict[str, Any]:
    """What `score_labels` takes for a record that could not be read: its id."""
    return {"id": name, "label": None}


def score_labels(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, Any]
) -> Scores:
    """Accuracy, macro and micro F1; see `scoring.labels.score`.

    Args:
      gold: of `official_gold` and `unknown_gold`.
      predictions: a label or a list of them by record id.
    """
    labels_by_id = {x["id"]: _set(x["label"]) for x in gold if x["label"] is not None}
    predicted = {name: _set(label) for name, label in predictions.items()}
    return labels_scoring.score(
        labels_by_id, predicted, [x["id"] for x in gold if x["label"] is None]
    )


def _set(label: str | Sequence[str]) -> set[str]:
    return ({label} if isinstance(label, str) else {*label}) - {NO_LABEL}


def score(
    gold: Sequence[Mapping[str, str]],
    predictions: Mapping[str, str],
    *,
    positive: str,
) -> Scores:
    """Accuracy, and F1 of one label; see `scoring.classification.score`.

    Args:
      gold: of `official_gold`.
      predictions: labels by record id.
      positive: the label that F1 is of.
    """
    return scoring.score({x["id"]: x["label"] for x in gold}, predictions, positive)


def right_share(gold: Mapping[str, Any], metrics: Mapping[str, float]) -> float:
    """Whether a record's label, or set of them, is right: F1 is of a class."""
    del gold
    return metrics["accuracy"]


def confusion(
    gold: Sequence[Mapping[str, str]], predictions: Mapping[str, str]
) -> scoring.Confusion:
    """See `scoring.classification.confusion`.

    Args:
      gold: of `official_gold`.
      predictions: labels by record id.
    """
    return scoring.confusion({x["id"]: x["label"] for x in gold}, predictions)


def gold_outputs(windows: Sequence[TextWindow]) -> np.ndarray:
    """Logits `[b, c]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold label.
    """
    require_gold(windows, official_gold)
    return one_hot(windows, "label", len(windows[0].record.labels) if windows else 0)


def gold_sets_outputs(windows: Sequence[TextWindow]) -> np.ndarray:
    """The same of any number of labels."""
    require_gold(windows, official_gold)
    labels = [window.labels["label"] for window in windows]
    return SURE * (2.0 * np.array(labels) - 1.0)
