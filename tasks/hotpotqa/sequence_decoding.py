"""From a model's outputs for a HotpotQA sequence to answers and supporting facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.hotpotqa.decoding import (
    THRESHOLDS,
    Prediction,
    require_gold,
    support_probability,
)
from tasks.hotpotqa.inputs import NO, SPAN, YES
from tasks.hotpotqa.sequence_inputs import HotpotSequence
from tasks.triviaqa.decoding import ScoredSpan, best_span

# Sentences support an answer from this probability on, where nothing else is chosen.
THRESHOLD = 0.5
# A question rests on two paragraphs.
NUM_PARAGRAPHS = 2

_SURE = 20.0
_WORD = {YES: "yes", NO: "no"}


class Outputs(NamedTuple):
    """Logits of some windows, on the host; those of padding do not count.

    Attributes:
      paragraph: `[b, g]`, whether a paragraph has a supporting sentence.
      sentence: `[b, g]`, whether a sentence supports the answer.
      answer_type: `[b, 3]`: span, yes, no.
      start: `[b, n]`, whether the answer begins at a token.
      end: `[b, n]`, whether it ends there.
    """

    paragraph: np.ndarray
    sentence: np.ndarray
    answer_type: np.ndarray
    start: np.ndarray
    end: np.ndarray


class DecodedWindow(NamedTuple):
    """What the logits of a window say, whatever the threshold.

    Attributes:
      answer: its text.
      span: where it stands; None for "yes" and "no".
      probabilities: float64, of each of the window's sentences.
      paragraphs: the most relevant ones, numbers of the record, ascending.
    """

    answer: str
    span: ScoredSpan | None
    probabilities: np.ndarray
    paragraphs: tuple[int, ...]

    def support(
        self, window: HotpotSequence, threshold: float
    ) -> tuple[tuple[int, int], ...]:
        """(paragraph, sentence) of those taken as supporting, in the input's order.

        They are sentences of the most relevant paragraphs alone, each of which has one
        at least: its best one, if none reaches the threshold.
        """
        chosen = []
        for paragraph in self.paragraphs:
            of_it = [
                (float(p), s)
                for p, s in zip(self.probabilities, window.sentences, strict=True)
                if s[0] == paragraph
            ]
            # Of equal ones the first.
            best = max(of_it, key=lambda x: x[0], default=None)
            chosen += [x[1] for x in of_it if x[0] >= threshold or x is best]
        return tuple(chosen)


def decode_each(
    outputs: Outputs,
    windows: Sequence[HotpotSequence],
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[list[Prediction]]:
    """The prediction of each threshold, for each window.

    Args:
      outputs: of the windows, in order.
      windows: as `features` made them.
      thresholds: sentences are supporting from this probability on.

    Raises:
      ValueError: if the outputs are not of these windows, or not finite.
    """
    return [
        [
            {"answer": found.answer, "support": _facts(window, found, threshold)}
            for threshold in thresholds
        ]
        for window, found in zip(windows, find_each(outputs, windows), strict=True)
    ]


def _facts(
    window: HotpotSequence, found: DecodedWindow, threshold: float
) -> list[tuple[str, int]]:
    paragraphs = window.record.paragraphs
    support = found.support(window, threshold)
    # Two paragraphs of one title give the same fact.
    return list(dict.fromkeys((paragraphs[p].title, s) for p, s in support))


def find_each(
    outputs: Outputs, windows: Sequence[HotpotSequence]
) -> list[DecodedWindow]:
    """What is found in each window.

    Raises:
      ValueError: see `decode_each`.
    """
    _check(outputs, windows)
    return [
        _find(Outputs(*(array[i] for array in outputs)), window)
        for i, window in enumerate(windows)
    ]


def _find(row: Outputs, window: HotpotSequence) -> DecodedWindow:
    relevance = row.paragraph[: len(window.paragraphs)]
    best = np.argsort(-np.float64(relevance), kind="stable")[:NUM_PARAGRAPHS]
    kind, span = int(np.argmax(row.answer_type)), None
    if kind == SPAN:
        span = best_span(row.start, row.end, window.unit)
        unit, (start, stop) = window.marked(span.first, span.last)
        answer = window.text_of(unit)[start:stop]
    else:
        answer = _WORD[kind]
    return DecodedWindow(
        answer,
        span,
        support_probability(row.sentence[: len(window.sentences)]),
        tuple(window.paragraphs[i] for i in sorted(best.tolist())),
    )


def _check(outputs: Outputs, windows: Sequence[HotpotSequence]) -> None:
    if not windows:
        return
    b, n = len(windows), len(windows[0].unit)
    g = len(windows[0].extra["sentences"])
    shapes = Outputs((b, g), (b, g), (b, 3), (b, n), (b, n))
    for name, array, shape in zip(Outputs._fields, outputs, shapes, strict=True):
        if np.shape(array) != shape:
            raise ValueError(
                f"{name} logits have shape {np.shape(array)}, expected {shape}: give "
                "the outputs of these windows, in their order"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} logits hold NaN or infinity; expected numbers")


def gold_outputs(windows: Sequence[HotpotSequence]) -> Outputs:
    """Outputs of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows)
    b, n = len(windows), len(windows[0].unit) if windows else 0
    ends = np.zeros((2, b, n))
    for side, name in zip(ends, ("starts", "ends"), strict=True):
        for row, window in zip(side, windows, strict=True):
            places = window.labels[name]
            row[places[places >= 0]] = _SURE
    labels = {
        name: np.array([window.labels[name] for window in windows])
        for name in ("relevant", "support", "answer_type")
    }
    return Outputs(
        paragraph=_SURE * (2.0 * labels["relevant"] - 1.0),
        sentence=_SURE * (2.0 * labels["support"] - 1.0),
        answer_type=_SURE * (np.arange(3) == labels["answer_type"].reshape(-1, 1)),
        start=ends[0],
        end=ends[1],
    )
