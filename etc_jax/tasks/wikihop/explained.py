"""What a WikiHop answer was chosen from, and where the documents mention it."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.datasets.choices import Rated, mean_logits
from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
    ranked,
)
from etc_jax.datasets.mentions import by_words
from etc_jax.datasets.offsets import TokenizedText
from etc_jax.tasks.wikihop.records import Record

WORDING = Wording(
    question="Query",
    support="Mentioned in",
    legend="Marked: where a document mentions the chosen candidate. The number after "
    "a candidate is its probability among all.",
)


def pool_explained(seen: Sequence[tuple[Record, Rated]]) -> Explained:
    """The candidates by their mean logits, and the documents with mentions of the best.

    Args:
      seen: (record, its choices with logits) of all windows of a record.
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
