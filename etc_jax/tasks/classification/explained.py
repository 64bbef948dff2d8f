"""The labels of a text with their probabilities, and what of it the model has read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import (
    Candidate,
    Explained,
    ExplainedDocument,
    Wording,
    ranked,
)
from etc_jax.tasks.classification.decoding import check_logits, label_sets_of
from etc_jax.tasks.classification.inputs import TextWindow

WORDING = Wording(
    question="Text",
    answer="",
    support="",
    candidates="{} labels, the most probable first",
    legend="The number after a label is its probability. What did not fit into the "
    "input stands by itself: the model has not read it.",
    headed_by_id=True,
)


def explain(
    logits: np.ndarray,
    windows: Sequence[TextWindow],
    setting: None = None,
    *,
    question: str,
) -> list[Explained]:
    """For each window its labels, and the text.

    Args:
      logits: `[b, c]`, as of `labels_of`.
      windows: as of `labels_of`.
      setting: of decoding, of which there is one.
      question: what the labels are answers to.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    del setting
    check_logits(logits, windows)
    explanations = []
    for window, row in zip(windows, logits, strict=True):
        label = window.record.label
        labels = ranked(window.record.labels, softmax(row), {label})
        fields = {"reference": label, "confidence": labels[0].probability}
        explanations.append(
            _explained(window, question, labels[0].text, labels, **fields)
        )
    return explanations


def explain_sets(
    logits: np.ndarray, windows: Sequence[TextWindow], setting: None = None
) -> list[Explained]:
    """The same of any number of labels, whose probabilities are sigmoids.

    Args:
      logits: `[b, c]`, as of `label_sets_of`.
      windows: as of `label_sets_of`.
      setting: of decoding, of which there is one.
    """
    del setting
    explanations = []
    for window, row, predicted in zip(
        windows, logits, label_sets_of(logits, windows), strict=True
    ):
        gold = window.record.label
        probabilities = 0.5 + 0.5 * np.tanh(np.float64(row) / 2)
        labels = ranked(window.record.labels, probabilities, gold or ())
        fields = {
            "reference": None if gold is None else ", ".join(gold),
            # Of just this set: each label is a decision of its own.
            "confidence": math.prod(
                max(x.probability, 1 - x.probability) for x in labels
            ),
            "prediction": predicted,
        }
        explanations.append(
            _explained(window, "", ", ".join(predicted), labels, **fields)
        )
    return explanations


def _explained(
    window: TextWindow,
    question: str,
    answer: str,
    labels: tuple[Candidate, ...],
    **fields: Any,
) -> Explained:
    documents = documents_of(window)
    about = (window.record.id, question, answer, documents, labels)
    return Explained(*about, wording=WORDING, **fields)


def documents_of(window: TextWindow) -> tuple[ExplainedDocument, ...]:
    """What the model has read of the texts, and what it has not."""
    record = window.record
    parts = _parts(record.title or "Text", record.text, window.num_chars)
    if record.second is not None:
        parts += _parts("Second text", record.second, window.num_second)
    return tuple(parts)


def _parts(title: str, text: str, stop: int) -> list[ExplainedDocument]:
    """The text to a character, and what comes after it if there is something."""
    read = ExplainedDocument.of_text(title, text[:stop])
    if not (unread := text[stop:].strip()):
        return [read]
    return [read, ExplainedDocument.of_text("Not read, for it did not fit", unread)]
