"""What a HotpotQA answer rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from etc_jax.data.windows.window import Window
from etc_jax.datasets.explained import Explained, ExplainedDocument, Passage, Wording
from etc_jax.tasks.hotpotqa.decoding import NOWHERE, DecodedWindow, FindFn

WORDING = Wording(
    support="Supporting sentences",
    legend="Marked: the answer. Tinted: sentences by the probability that they support "
    "it; those that are taken as supporting have it after them.",
)


def explain_by(find: FindFn) -> Callable[..., list[Explained]]:
    """`FeatureConverter.explain`: the paragraphs of each window, and the answer.

    Args:
      find: (outputs, windows) -> what they say of each window.
    """

    def explain(
        outputs: Any, windows: Sequence[Window], threshold: float
    ) -> list[Explained]:
        return [_explained(window, threshold) for window in find(outputs, windows)]

    return explain


def _explained(window: DecodedWindow, threshold: float) -> Explained:
    """The paragraphs of a record with the support of each sentence, and the answer."""
    record, probabilities = window.record, window.probabilities
    answer, span = window.answer(threshold)
    position = NOWHERE if span is None else window.position(span)
    support = {*window.support(threshold)}
    titles = [paragraph.title for paragraph in record.paragraphs]

    def passage(paragraph: int, sentence: int, text: str) -> Passage:
        at = (paragraph, sentence)
        marks = position.marks if position[:2] == at else ()
        is_gold = None
        if record.support is not None and sentence >= 0:
            is_gold = (titles[paragraph], sentence) in record.support
        return Passage(
            text, probabilities.get(at), at in support, marks, is_gold=is_gold
        )

    documents = tuple(
        ExplainedDocument(
            passage(p, -1, paragraph.title),
            tuple(passage(p, s, x) for s, x in enumerate(paragraph.sentences)),
        )
        for p, paragraph in enumerate(record.paragraphs)
    )
    return Explained(
        record.id,
        record.question,
        answer,
        documents,
        reference=record.answer,
        confidence=window.confidence(span) if answer else None,
        wording=WORDING,
    )
