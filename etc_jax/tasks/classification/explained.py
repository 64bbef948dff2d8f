"""The labels of a text with their probabilities, and what of it the model has read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording, ranked
from etc_jax.tasks.classification.decoding import check_logits
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
        labels = ranked(window.record.labels, softmax(row), {window.record.label})
        documents = documents_of(window)
        about = (window.record.id, question, labels[0].text)
        explanations.append(
            Explained(
                *about,
                documents,
                labels,
                reference=window.record.label,
                confidence=labels[0].probability,
                wording=WORDING,
            )
        )
    return explanations


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
