"""What a WikiHop answer was chosen from, and where the documents mention it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.explained import (
    Candidate,
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
)
from etc_jax.datasets.offsets import TokenizedText
from tasks.mentions import by_words
from tasks.wikihop.decoding import candidate_logits
from tasks.wikihop.inputs import WikihopWindow
from tasks.wikihop.records import Record

WORDING = Wording(
    question="Query",
    places="Mentioned in",
    legend="Marked: where a document mentions the chosen candidate. The number after "
    "a candidate is its probability among all.",
)


def explain(
    logits: np.ndarray, windows: Sequence[WikihopWindow], setting: None = None
) -> list[Explained]:
    """For each window the candidates, and the documents with mentions of the best.

    Raises:
      ValueError: if the logits are not of these windows.
    """
    del setting
    rows = candidate_logits(logits, windows)
    return [explained(w.record, row) for w, row in zip(windows, rows, strict=True)]


def explained(record: Record, logits: np.ndarray) -> Explained:
    """The candidates of a record, and its documents with mentions of the best one.

    Args:
      record: the query.
      logits: float64 `[c]`, of its candidates.
    """
    candidates = _candidates(record, logits)
    answer = candidates[0].text
    return Explained(
        record.id,
        record.query,
        answer,
        _documents(record, answer),
        candidates,
        wording=WORDING,
    )


def _candidates(record: Record, logits: np.ndarray) -> tuple[Candidate, ...]:
    odds = np.exp(logits - np.max(logits))
    probabilities = odds / np.sum(odds)
    # Stable: of equal ones the first, as decoding takes it.
    order = np.argsort(-probabilities, kind="stable").tolist()
    return tuple(
        Candidate(record.candidates[i], float(probabilities[i])) for i in order
    )


def _documents(record: Record, answer: str) -> tuple[ExplainedDocument, ...]:
    find = by_words([_characters(answer)])
    return tuple(
        ExplainedDocument(
            Passage(f"Document {number}"),
            (Passage(text, marks=_marks(find, text)),),
        )
        for number, text in enumerate(record.documents, start=1)
    )


def _marks(find, text: str) -> tuple[tuple[int, int], ...]:
    return tuple((first, last + 1) for _, first, last in find(_characters(text)))


def _characters(text: str) -> TokenizedText:
    """A text of which each character is a piece."""
    offsets = [(i, i + 1) for i in range(len(text))]
    return TokenizedText(text, list(range(len(text))), offsets)
