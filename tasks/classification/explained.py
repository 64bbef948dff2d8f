"""The labels of a text with their probabilities, and what of it the model has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from etc_jax.datasets.explained import (
    Candidate,
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
)
from tasks.classification.decoding import probabilities
from tasks.classification.inputs import ClassificationWindow, Labelled

WORDING = Wording(
    question="Text",
    answer="",
    places="",
    candidates="{} labels, the most probable first",
    legend="The number after a label is its probability. What did not fit into the "
    "input stands by itself: the model has not read it.",
    headed_by_id=True,
)


def explain(
    logits: np.ndarray,
    windows: Sequence[ClassificationWindow],
    setting: None = None,
    *,
    question: str,
) -> list[Explained]:
    """For each window its labels, and the text.

    Args:
      logits: as of `decode`.
      windows: as of `decode`.
      setting: of decoding, of which there is one.
      question: what the labels are answers to.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    del setting
    documents = []
    for window, row in zip(windows, probabilities(logits, windows), strict=True):
        candidates = _candidates(window.record, row)
        documents.append(
            Explained(
                window.record.id,
                question,
                candidates[0].text,
                tuple(_documents(window)),
                candidates,
                wording=WORDING,
            )
        )
    return documents


def _candidates(record: Labelled, row: np.ndarray) -> tuple[Candidate, ...]:
    # Stable: of equal ones the first, as decoding takes it.
    order = np.argsort(-row, kind="stable").tolist()
    return tuple(Candidate(record.labels[i], float(row[i])) for i in order)


def _documents(window: ClassificationWindow) -> Iterator[ExplainedDocument]:
    record, stop = window.record, window.num_chars
    yield _document(record.title or "Text", record.text[:stop])
    if unread := record.text[stop:].strip():
        yield _document("Not read, for it did not fit", unread)


def _document(title: str, text: str) -> ExplainedDocument:
    lines = (line.strip() for line in text.splitlines())
    passages = tuple(Passage(line) for line in lines if line)
    return ExplainedDocument(Passage(title), passages, paragraphs=True)
