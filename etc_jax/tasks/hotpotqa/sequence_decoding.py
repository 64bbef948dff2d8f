"""From a model's outputs for a HotpotQA sequence to answers and supporting facts."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
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
    TEXTS,
    AnswerPosition,
    DecodedWindow,
    Prediction,
    Sentence,
    lost_answer,
    official_gold,
    support_probability,
)
from etc_jax.tasks.hotpotqa.inputs import SPAN
from etc_jax.tasks.hotpotqa.records import Record, existing_support
from etc_jax.tasks.hotpotqa.sequence_inputs import HotpotSequence

# Sentences support an answer from this probability on, where nothing else is chosen.
THRESHOLD = 0.5
# A question rests on two paragraphs.
NUM_PARAGRAPHS = 2


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


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """See `decoding.DecodedWindow`; the answer is the same whatever the threshold.

    Supporting sentences are those of the most relevant paragraphs alone, each of which
    has one at least: its best one, if none reaches the threshold.
    """

    window: HotpotSequence
    logits: Outputs

    @property
    def record(self) -> Record:
        return self.window.record

    @functools.cached_property
    def probabilities(self) -> Mapping[Sentence, float]:
        sentences = self.window.sentences
        probabilities = support_probability(self.logits.sentence[: len(sentences)])
        return dict(zip(sentences, probabilities.tolist(), strict=True))

    def support(self, threshold: float) -> Sequence[Sentence]:
        relevance = np.float64(self.logits.paragraph[: len(self.window.paragraphs)])
        best = np.argsort(-relevance, kind="stable")[:NUM_PARAGRAPHS]
        chosen = []
        for paragraph in (self.window.paragraphs[i] for i in sorted(best.tolist())):
            of_it = {s: p for s, p in self.probabilities.items() if s[0] == paragraph}
            # Of equal ones the first.
            likeliest = max(of_it, key=of_it.get, default=None)
            chosen += [s for s, p in of_it.items() if p >= threshold or s == likeliest]
        return chosen

    @functools.cached_property
    def _kind(self) -> int:
        return int(np.argmax(self.logits.answer_type))

    @functools.cached_property
    def _span(self) -> ScoredSpan:
        return best_span(self.logits.start, self.logits.end, self.window.unit)

    def answer(self, threshold: float) -> tuple[str, ScoredSpan | None]:
        del threshold
        if self._kind != SPAN:
            return TEXTS[self._kind], None
        unit, (start, stop) = self.window.marked(self._span.first, self._span.last)
        return self.window.text_of(unit)[start:stop], self._span

    def confidence(self, span: ScoredSpan | None) -> float:
        probability = float(softmax(self.logits.answer_type)[self._kind])
        return probability * (1.0 if span is None else math.exp(span.score))

    def position(self, span: ScoredSpan) -> AnswerPosition:
        unit, mark = self.window.marked(span.first, span.last)
        return AnswerPosition(*unit, (mark,))


def find_each(
    outputs: Outputs, windows: Sequence[HotpotSequence]
) -> list[DecodedWindow]:
    """What the outputs say of each window.

    Args:
      outputs: of the windows, in order.
      windows: as `features` made them.

    Raises:
      ValueError: if the outputs are not of these windows, or not finite.
    """
    n, g = 0, 0
    if windows:
        n, g = len(windows[0].unit), len(windows[0].extra["sentences"])
    lengths = ((g,), (g,), (3,), (n,), (n,))
    shapes = dict(zip(Outputs._fields, lengths, strict=True))
    check_outputs(outputs._asdict(), windows, shapes)
    rows = zip(windows, *outputs, strict=True)
    return [_Decoded(window, Outputs(*row)) for window, *row in rows]


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
