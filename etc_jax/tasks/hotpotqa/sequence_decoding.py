"""From a model's outputs for a HotpotQA sequence to answers and supporting facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.datasets.decoding import (
    SURE,
    check_outputs,
    one_hot,
    require_gold,
    softmax,
)
from etc_jax.datasets.spans import ScoredSpan, best_span, sure_logits
from etc_jax.tasks.hotpotqa.decoding import (
    THRESHOLDS,
    Prediction,
    lost_answer,
    official_gold,
    support_probability,
)
from etc_jax.tasks.hotpotqa.inputs import NO, SPAN, YES
from etc_jax.tasks.hotpotqa.records import existing_support
from etc_jax.tasks.hotpotqa.sequence_inputs import HotpotSequence

# Sentences support an answer from this probability on, where nothing else is chosen.
THRESHOLD = 0.5
# A question rests on two paragraphs.
NUM_PARAGRAPHS = 2

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
      probability: of the answer: of its type, and of both ends of its span.
      probabilities: float64, of each of the window's sentences.
      paragraphs: the most relevant ones, numbers of the record, ascending.
    """

    answer: str
    span: ScoredSpan | None
    probability: float
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


def decode(
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
            {"answer": decoded.answer, "support": _facts(window, decoded, threshold)}
            for threshold in thresholds
        ]
        for window, decoded in zip(windows, find_each(outputs, windows), strict=True)
    ]


def _facts(
    window: HotpotSequence, decoded: DecodedWindow, threshold: float
) -> list[tuple[str, int]]:
    paragraphs = window.record.paragraphs
    support = decoded.support(window, threshold)
    # Two paragraphs of one title give the same fact.
    return list(dict.fromkeys((paragraphs[p].title, s) for p, s in support))


def find_each(
    outputs: Outputs, windows: Sequence[HotpotSequence]
) -> list[DecodedWindow]:
    """What is found in each window.

    Raises:
      ValueError: see `decode`.
    """
    n, g = 0, 0
    if windows:
        n, g = len(windows[0].unit), len(windows[0].extra["sentences"])
    rows = ((g,), (g,), (3,), (n,), (n,))
    shapes = dict(zip(Outputs._fields, rows, strict=True))
    check_outputs(outputs._asdict(), windows, shapes)
    return [
        _find(Outputs(*(array[i] for array in outputs)), window)
        for i, window in enumerate(windows)
    ]


def _find(row: Outputs, window: HotpotSequence) -> DecodedWindow:
    relevance = row.paragraph[: len(window.paragraphs)]
    best = np.argsort(-np.float64(relevance), kind="stable")[:NUM_PARAGRAPHS]
    kind, span = int(np.argmax(row.answer_type)), None
    probability = float(softmax(row.answer_type)[kind])
    if kind == SPAN:
        span = best_span(row.start, row.end, window.unit)
        unit, (start, stop) = window.marked(span.first, span.last)
        answer = window.text_of(unit)[start:stop]
        probability *= math.exp(span.score)
    else:
        answer = _WORD[kind]
    return DecodedWindow(
        answer,
        span,
        probability,
        support_probability(row.sentence[: len(window.sentences)]),
        tuple(window.paragraphs[i] for i in sorted(best.tolist())),
    )


def gold_outputs(windows: Sequence[HotpotSequence]) -> Outputs:
    """Outputs of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    n = len(windows[0].unit) if windows else 0
    start, end = sure_logits(windows, ("starts", "ends"), n)
    relevant, support = (
        np.array([window.labels[name] for window in windows])
        for name in ("relevant", "support")
    )
    return Outputs(
        paragraph=SURE * (2.0 * relevant - 1.0),
        sentence=SURE * (2.0 * support - 1.0),
        answer_type=one_hot(windows, "answer_type", 3),
        start=start,
        end=end,
    )


def why_lost(
    windows: Sequence[HotpotSequence], prediction: Prediction
) -> Iterator[str]:
    """Why the window of a record does not give the gold answer and facts back."""
    [window] = windows
    record = window.record
    facts, wanted = set(prediction["support"]), set(record.support)
    titles = [paragraph.title for paragraph in record.paragraphs]
    read = {(titles[p], sentence) for p, sentence in window.sentences}
    for fact in sorted(wanted - facts):
        if fact in read:
            why = "stands in a third paragraph, and two are taken"
        elif fact in existing_support(record):
            why = "did not fit into the input"
        else:
            why = "points nowhere"
        yield f"supporting fact {fact} {why}"
    for fact in sorted(facts - wanted):
        yield f"{fact} is no supporting fact, and two paragraphs must have one"
    yield from lost_answer(window, prediction)
