"""Any number of labels for a text: from logits to sets, and to metrics.

A label is given where its probability, a sigmoid, is above a half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.decoding import SURE, require_gold
from etc_jax.datasets.explained import Explained, ranked
from etc_jax.tasks.classification.decoding import check_logits, official_gold
from etc_jax.tasks.classification.explained import WORDING, documents_of
from etc_jax.tasks.classification.inputs import TextWindow


def label_sets_of(logits: np.ndarray, windows: Sequence[TextWindow]) -> list[list[str]]:
    """The labels of each window with a logit above 0, in the order of all.

    Args:
      logits: `[b, c]`, in the order of `record.labels`.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    check_logits(logits, windows)
    return [
        [x for x, logit in zip(window.record.labels, row, strict=True) if logit > 0]
        for window, row in zip(windows, logits, strict=True)
    ]


def explain(
    logits: np.ndarray,
    windows: Sequence[TextWindow],
    setting: None = None,
) -> list[Explained]:
    """For each window all labels with their probabilities, and the text.

    Args:
      logits: `[b, c]`, as of `label_sets_of`.
      windows: as of `label_sets_of`.
      setting: of decoding, of which there is one.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    del setting
    explanations = []
    for window, row, predicted in zip(
        windows, logits, label_sets_of(logits, windows), strict=True
    ):
        gold = window.record.label
        about = (window.record.id, "", ", ".join(predicted), documents_of(window))
        labels = ranked(
            window.record.labels, 0.5 + 0.5 * np.tanh(np.float64(row) / 2), gold or ()
        )
        explanations.append(
            Explained(
                *about,
                labels,
                reference=None if gold is None else ", ".join(gold),
                # Of just this set: each label is a decision of its own.
                confidence=float(
                    np.prod([max(x.probability, 1 - x.probability) for x in labels])
                ),
                prediction=predicted,
                wording=WORDING,
            )
        )
    return explanations


def gold_outputs(windows: Sequence[TextWindow]) -> np.ndarray:
    """Logits `[b, c]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold labels.
    """
    require_gold(windows, official_gold)
    labels = [window.labels["label"] for window in windows]
    return SURE * (2.0 * np.array(labels) - 1.0)
