"""What a HotpotQA answer rests on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import Explained, ExplainedDocument, Passage, Wording
from etc_jax.tasks.hotpotqa.decoding import (
    MAX_ANSWER_TOKENS,
    Outputs,
    best_span,
    decode,
    support_probability,
)
from etc_jax.tasks.hotpotqa.inputs import SPAN, HotpotWindow
from etc_jax.tasks.hotpotqa.records import Record
from etc_jax.tasks.hotpotqa.sequence_decoding import (
    Outputs as SequenceOutputs,
    find_each,
)
from etc_jax.tasks.hotpotqa.sequence_inputs import HotpotSequence

# (paragraph of the record, sentence of the paragraph)
Sentence = tuple[int, int]

WORDING = Wording(
    support="Supporting sentences",
    legend="Marked: the answer. Tinted: sentences by the probability that they support "
    "it; those that are taken as supporting have it after them.",
)


class AnswerPosition(NamedTuple):
    """Where an answer stands: a title has the sentence -1."""

    paragraph: int
    sentence: int
    marks: tuple[tuple[int, int], ...]


NOWHERE = AnswerPosition(-1, -1, ())


def explain(
    outputs: Outputs, windows: Sequence[HotpotWindow], threshold: float
) -> list[Explained]:
    """For each window the paragraphs with the support of each sentence, and the answer.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    predictions = decode(outputs, windows, (threshold,))
    passages = []
    for i, (window, [prediction]) in enumerate(zip(windows, predictions, strict=True)):
        probability = support_probability(outputs.support[i])
        kind, position = int(np.argmax(outputs.answer_type[i])), NOWHERE
        confidence = float(softmax(outputs.answer_type[i])[kind])
        if kind == SPAN:
            span = best_span(
                outputs.span[i], window, probability >= threshold, MAX_ANSWER_TOKENS
            )
            confidence *= _span_probability(outputs.span[i], span)
            position = NOWHERE if span is None else _position(window, *span)
        probabilities = {
            (int(window.paragraph[at]), int(window.sentence[at])): float(
                probability[at]
            )
            for at in np.flatnonzero(window.sentence >= 0).tolist()
        }
        support = {sentence for sentence, p in probabilities.items() if p >= threshold}
        passages.append(
            _explained(
                window.record,
                prediction["answer"],
                probabilities,
                support,
                position,
                confidence if prediction["answer"] else None,
            )
        )
    return passages


def explain_sequence(
    outputs: SequenceOutputs,
    windows: Sequence[HotpotSequence],
    threshold: float,
) -> list[Explained]:
    """For each window the paragraphs with the support of each sentence, and the answer.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    passages = []
    for window, decoded in zip(windows, find_each(outputs, windows), strict=True):
        position = NOWHERE
        if decoded.span is not None:
            unit, mark = window.marked(decoded.span.first, decoded.span.last)
            position = AnswerPosition(*unit, (mark,))
        probabilities = dict(
            zip(window.sentences, decoded.probabilities.tolist(), strict=True)
        )
        support = decoded.support(window, threshold)
        passages.append(
            _explained(
                window.record,
                decoded.answer,
                probabilities,
                support,
                position,
                decoded.probability,
            )
        )
    return passages


def _explained(
    record: Record,
    answer: str,
    probabilities: Mapping[Sentence, float],
    support: Collection[Sentence],
    position: AnswerPosition,
    confidence: float | None,
) -> Explained:
    """The paragraphs of a record with the support of each sentence, and the answer.

    Args:
      record: the question.
      answer: to it.
      probabilities: that a sentence supports the answer, of those in the input.
      support: sentences that are taken as supporting.
      position: where the answer stands.
      confidence: probability of the answer; None if there is none.
    """
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
        confidence=confidence,
        wording=WORDING,
    )


def _span_probability(logits: np.ndarray, span: tuple[int, int] | None) -> float:
    """Of both ends, each among all tokens `[n, 2]`, as the loss has them."""
    if span is None:
        return 0.0
    return math.prod(
        float(softmax(logits[:, side])[at]) for side, at in enumerate(span)
    )


def _position(window: HotpotWindow, first: int, last: int) -> AnswerPosition:
    at = window.structure.links[first, 0]
    return AnswerPosition(
        int(window.paragraph[at]),
        int(window.sentence[at]),
        ((int(window.offsets[first, 0]), int(window.offsets[last, 1])),),
    )
