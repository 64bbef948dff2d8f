"""What a HotpotQA answer rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.explained import Document, Explained, Passage, Wording
from tasks.hotpotqa_decoding import (
    MAX_ANSWER_TOKENS,
    Outputs,
    best_span,
    check_outputs,
    decode_each,
    support_probability,
)
from tasks.hotpotqa_features import SPAN, HotpotWindow

WORDING = Wording(
    places="Supporting sentences",
    legend="Marked: the answer. Tinted: sentences by the probability that they support "
    "it; those that are taken as supporting have it behind them.",
)


class _Place(NamedTuple):
    """Where an answer stands: a title has the sentence -1."""

    paragraph: int
    sentence: int
    marks: tuple[tuple[int, int], ...]


_NOWHERE = _Place(-1, -1, ())


def explain(
    outputs: Outputs, windows: Sequence[HotpotWindow], threshold: float
) -> list[Explained]:
    """For each window the paragraphs with the support of each sentence, and the answer.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    check_outputs(outputs, windows)
    predictions = decode_each(outputs, windows, (threshold,))
    told = []
    for i, (window, [prediction]) in enumerate(zip(windows, predictions, strict=True)):
        probability = support_probability(outputs.support[i])
        place = _NOWHERE
        if int(np.argmax(outputs.answer_type[i])) == SPAN:
            place = _place(outputs.span[i], window, probability >= threshold)
        record = window.record
        documents = _documents(window, probability, threshold, place)
        told.append(
            Explained(
                record.id,
                record.question,
                prediction["answer"],
                documents,
                wording=WORDING,
            )
        )
    return told


def _place(logits: np.ndarray, window: HotpotWindow, support: np.ndarray) -> _Place:
    span = best_span(logits, window, support, MAX_ANSWER_TOKENS)
    if span is None:
        return _NOWHERE
    first, last = span
    at = window.structure.links[first, 0]
    return _Place(
        int(window.paragraph[at]),
        int(window.sentence[at]),
        ((int(window.offsets[first, 0]), int(window.offsets[last, 1])),),
    )


def _documents(window, probability, threshold: float, place: _Place):
    shown = {
        (int(window.paragraph[at]), int(window.sentence[at])): float(probability[at])
        for at in np.flatnonzero(window.sentence >= 0).tolist()
    }

    def passage(paragraph: int, sentence: int, text: str) -> Passage:
        found = shown.get((paragraph, sentence))
        marks = place.marks if place[:2] == (paragraph, sentence) else ()
        return Passage(text, found, found is not None and found >= threshold, marks)

    return tuple(
        Document(
            passage(p, -1, paragraph.title),
            tuple(passage(p, s, x) for s, x in enumerate(paragraph.sentences)),
        )
        for p, paragraph in enumerate(window.record.paragraphs)
    )
