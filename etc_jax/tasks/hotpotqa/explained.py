"""What a HotpotQA answer rests on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

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
from etc_jax.tasks.hotpotqa.sequence_decoding import Outputs as SequenceOutputs
from etc_jax.tasks.hotpotqa.sequence_decoding import find_each
from etc_jax.tasks.hotpotqa.sequence_inputs import HotpotSequence

# (paragraph of the record, sentence of the paragraph)
Sentence = tuple[int, int]

WORDING = Wording(
    places="Supporting sentences",
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
        place = NOWHERE
        if int(np.argmax(outputs.answer_type[i])) == SPAN:
            place = _place(outputs.span[i], window, probability >= threshold)
        found = {
            (int(window.paragraph[at]), int(window.sentence[at])): float(
                probability[at]
            )
            for at in np.flatnonzero(window.sentence >= 0).tolist()
        }
        support = {sentence for sentence, p in found.items() if p >= threshold}
        passages.append(
            _explained(window.record, prediction["answer"], found, support, place)
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
    for window, found in zip(windows, find_each(outputs, windows), strict=True):
        place = NOWHERE
        if found.span is not None:
            unit, mark = window.marked(found.span.first, found.span.last)
            place = AnswerPosition(*unit, (mark,))
        probabilities = dict(
            zip(window.sentences, found.probabilities.tolist(), strict=True)
        )
        support = found.support(window, threshold)
        passages.append(
            _explained(window.record, found.answer, probabilities, support, place)
        )
    return passages


def _explained(
    record: Record,
    answer: str,
    found: Mapping[Sentence, float],
    support: Collection[Sentence],
    place: AnswerPosition,
) -> Explained:
    """The paragraphs of a record with the support of each sentence, and the answer.

    Args:
      record: the question.
      answer: to it.
      found: probability that a sentence supports the answer, of those in the input.
      support: sentences that are taken as supporting.
      place: where the answer stands.
    """

    def passage(paragraph: int, sentence: int, text: str) -> Passage:
        at = (paragraph, sentence)
        marks = place.marks if place[:2] == at else ()
        return Passage(text, found.get(at), at in support, marks)

    documents = tuple(
        ExplainedDocument(
            passage(p, -1, paragraph.title),
            tuple(passage(p, s, x) for s, x in enumerate(paragraph.sentences)),
        )
        for p, paragraph in enumerate(record.paragraphs)
    )
    return Explained(record.id, record.question, answer, documents, wording=WORDING)


def _place(
    logits: np.ndarray, window: HotpotWindow, support: np.ndarray
) -> AnswerPosition:
    span = best_span(logits, window, support, MAX_ANSWER_TOKENS)
    if span is None:
        return NOWHERE
    first, last = span
    at = window.structure.links[first, 0]
    return AnswerPosition(
        int(window.paragraph[at]),
        int(window.sentence[at]),
        ((int(window.offsets[first, 0]), int(window.offsets[last, 1])),),
    )
