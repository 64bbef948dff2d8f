"""What a WikiHop answer was chosen from, and where the documents mention it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
    ranked,
)
from etc_jax.datasets.offsets import TokenizedText
from etc_jax.tasks.mentions import by_words
from etc_jax.tasks.wikihop.decoding import Rated, Windows, mean_logits, rated
from etc_jax.tasks.wikihop.records import Record

WORDING = Wording(
    question="Query",
    places="Mentioned in",
    legend="Marked: where a document mentions the chosen candidate. The number after "
    "a candidate is its probability among all.",
)


def explain(
    logits: np.ndarray, windows: Windows, setting: None = None
) -> list[tuple[Record, Rated]]:
    """What `pool_explained` needs of each window: its record, and its candidates.

    Raises:
      ValueError: if the logits are not of these windows.
    """
    del setting
    of_windows = rated(logits, windows)
    return [(w.record, ratings) for w, ratings in zip(windows, of_windows, strict=True)]


def pool_explained(seen: Sequence[tuple[Record, Rated]]) -> Explained:
    """The candidates by their mean logits, and the documents with mentions of the best.

    Args:
      seen: of all windows of a record, as `explain` gives it.
    """
    record = seen[0][0]
    probabilities = softmax(mean_logits([ratings for _, ratings in seen]))
    candidates = ranked(record.candidates, probabilities, {record.answer})
    answer = candidates[0].text
    return Explained(
        record.id,
        record.query,
        answer,
        _documents(record, answer),
        candidates,
        reference=record.answer,
        confidence=candidates[0].probability,
        wording=WORDING,
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
