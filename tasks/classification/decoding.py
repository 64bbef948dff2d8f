"""From logits of labels to labels, and to a file."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from etc_jax.scoring import classification as scoring
from etc_jax.scoring.result import Scores
from tasks.classification.inputs import ClassificationWindow, Labelled

# The prediction for a text that is no input: no label.
NO_LABEL = ""

_SURE = 20.0


def decode(
    logits: np.ndarray, windows: Sequence[ClassificationWindow]
) -> dict[str, str]:
    """The label with the largest logit, the first of equal ones, by record id.

    Args:
      logits: `[b, c]`, in the order of `record.labels`.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    found = decode_each(logits, windows)
    return {w.record.id: label for w, [label] in zip(windows, found, strict=True)}


def decode_each(
    logits: np.ndarray,
    windows: Sequence[ClassificationWindow],
    settings: Sequence[None] = (None,),
) -> list[list[str]]:
    """The prediction of each setting, of which there is one, for each window.

    Raises:
      ValueError: see `decode`.
    """
    labels = [
        window.record.labels[int(np.argmax(row))]
        for window, row in zip(windows, probabilities(logits, windows), strict=True)
    ]
    return [[label] * len(settings) for label in labels]


def probabilities(
    logits: np.ndarray, windows: Sequence[ClassificationWindow]
) -> list[np.ndarray]:
    """Of each window the probability of each label, float64 `[c]`.

    Raises:
      ValueError: see `decode`.
    """
    expected = (len(windows), len(windows[0].record.labels) if windows else 0)
    if windows and tuple(np.shape(logits)) != expected:
        raise ValueError(
            f"logits have shape {tuple(np.shape(logits))}, expected {expected}: give "
            "the outputs of these windows, in their order"
        )
    found = []
    for row, window in zip(np.float64(logits), windows, strict=True):
        if not np.isfinite(row).all():
            raise ValueError(
                f"logits of {window.record.id!r} hold NaN or infinity; expected numbers"
            )
        odds = np.exp(row - np.max(row))
        found.append(odds / np.sum(odds))
    return found


# --- files ----------------------------------------------------------------------------


def official_gold(record: Labelled) -> dict[str, str] | None:
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


def write(predictions: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes {record id: label}."""
    pathlib.Path(path).write_text(json.dumps(dict(predictions)), encoding="utf-8")


def gold_outputs(windows: Sequence[ClassificationWindow]) -> np.ndarray:
    """Logits `[b, c]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold label.
    """
    for window in windows:
        if window.record.label is None:
            raise ValueError(f"{window.record.id!r} has no gold label")
    c = len(windows[0].record.labels) if windows else 0
    numbers = np.array([w.labels["label"] for w in windows]).reshape(-1, 1)
    return _SURE * (np.arange(c) == numbers)
