"""From HotpotQA outputs to predictions, and to the official file."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from etc_jax.data.windows.token_types import SENTENCE_TYPE, TITLE_TYPE
from etc_jax.data.windows.window import Window
from etc_jax.datasets.decoding import (
    SURE,
    check_outputs,
    one_hot,
    require_gold,
    softmax,
)
from etc_jax.scoring.answers import exact_match
from etc_jax.tasks.hotpotqa.inputs import NO, SPAN, YES, HotpotWindow
from etc_jax.tasks.hotpotqa.records import Record, existing_support

# Best on the development set in the paper (appendix C.2).
THRESHOLD = 0.4
THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(11))
MAX_ANSWER_TOKENS = 30

TEXTS = {YES: "yes", NO: "no"}

# {"answer": text, "support": [(title, sentence)]}
Prediction = dict[str, Any]
# (paragraph of the record, sentence of the paragraph)
Sentence = tuple[int, int]
FindFn = Callable[[Any, Sequence[Window]], "Sequence[DecodedWindow]"]


class Outputs(NamedTuple):
    """Logits of some windows, on the host.

    Attributes:
      support: `[b, g]`, whether a global token's text supports the answer.
      answer_type: `[b, 3]`: span, yes, no.
      span: `[b, n, 2]`, whether the answer begins, and ends, at a long token.
    """

    support: np.ndarray
    answer_type: np.ndarray
    span: np.ndarray


class AnswerPosition(NamedTuple):
    """Where an answer stands: a title has the sentence -1."""

    paragraph: int
    sentence: int
    marks: tuple[tuple[int, int], ...]


NOWHERE = AnswerPosition(-1, -1, ())


class DecodedWindow(Protocol):
    """What the logits of a window say.

    Attributes:
      record: of the window.
      probabilities: that a sentence supports the answer, of those in the input.
    """

    record: Record
    probabilities: Mapping[Sentence, float]

    def support(self, threshold: float) -> Sequence[Sentence]:
        """Sentences that are taken as supporting, in the order of the input."""

    def answer(self, threshold: float) -> tuple[str, Any]:
        """(text, span that has it); None for no answer, and for "yes" and "no"."""

    def confidence(self, span: Any) -> float:
        """The probability of the answer: of its type, and of both ends of its span."""

    def position(self, span: Any) -> AnswerPosition:
        """Where a span stands."""


def decode_by(find: FindFn) -> Callable[..., list[list[Prediction]]]:
    """`FeatureConverter.decode`: answer and supporting facts of each threshold.

    Sentences are supporting from a threshold on.

    Args:
      find: (outputs, windows) -> what they say of each window.
    """

    def decode(
        outputs: Any, windows: Sequence[Window], thresholds: Sequence[float]
    ) -> list[list[Prediction]]:
        return [
            [
                {"answer": window.answer(t)[0], "support": _facts(window, t)}
                for t in thresholds
            ]
            for window in find(outputs, windows)
        ]

    return decode


def _facts(window: DecodedWindow, threshold: float) -> list[tuple[str, int]]:
    paragraphs = window.record.paragraphs
    facts = ((paragraphs[p].title, s) for p, s in window.support(threshold))
    # Two paragraphs of one title give the same fact.
    return list(dict.fromkeys(facts))


@dataclasses.dataclass(frozen=True)
class _Decoded:
    """See `DecodedWindow`.

    A span lies in one sentence or title whose global token is taken as supporting; if
    there is none, the answer is empty. The best spans are looked for once, whatever the
    number of thresholds, and are exact: the official code looks among the 50 best
    beginnings and ends (`best_span` with `top=50`).
    """

    window: HotpotWindow
    logits: Outputs

    @property
    def record(self) -> Record:
        return self.window.record

    @functools.cached_property
    def _support(self) -> np.ndarray:
        return support_probability(self.logits.support)

    @functools.cached_property
    def _spans(self) -> tuple[np.ndarray, np.ndarray]:
        return best_spans(self.logits.span, self.window)

    @property
    def _kind(self) -> int:
        return int(np.argmax(self.logits.answer_type))

    def _sentences(self, threshold: float) -> Iterator[tuple[Sentence, float]]:
        window = self.window
        chosen = (self._support >= threshold) & (window.sentence >= 0)
        for at in np.flatnonzero(chosen).tolist():
            sentence = int(window.paragraph[at]), int(window.sentence[at])
            yield sentence, float(self._support[at])

    @property
    def probabilities(self) -> Mapping[Sentence, float]:
        return dict(self._sentences(0.0))

    def support(self, threshold: float) -> Sequence[Sentence]:
        return [sentence for sentence, _ in self._sentences(threshold)]

    def answer(self, threshold: float) -> tuple[str, tuple[int, int] | None]:
        if self._kind != SPAN:
            return TEXTS[self._kind], None
        span = _best_of(self._spans, self._support >= threshold)
        return ("" if span is None else text_of(self.window, *span)), span

    def confidence(self, span: tuple[int, int] | None) -> float:
        probability = float(softmax(self.logits.answer_type)[self._kind])
        # Each end among all tokens, as the loss has them.
        ends = enumerate(span or ())
        odds = (float(softmax(self.logits.span[:, side])[at]) for side, at in ends)
        return probability * math.prod(odds)

    def position(self, span: tuple[int, int]) -> AnswerPosition:
        window, (first, last) = self.window, span
        at = window.structure.links[first, 0]
        marks = ((int(window.offsets[first, 0]), int(window.offsets[last, 1])),)
        return AnswerPosition(
            int(window.paragraph[at]), int(window.sentence[at]), marks
        )


def find_each(outputs: Outputs, windows: Sequence[HotpotWindow]) -> list[DecodedWindow]:
    """What the outputs say of each window.

    Args:
      outputs: of the windows, in order.
      windows: as `features` made them.

    Raises:
      ValueError: if the outputs are not of these windows, or not finite.
    """
    n, g = (len(windows[0].offsets), len(windows[0].sentence)) if windows else (0, 0)
    shapes = {"support": (g,), "answer_type": (3,), "span": (n, 2)}
    check_outputs(outputs._asdict(), windows, shapes)
    # A learner's outputs have the same names, in an order of their own.
    arrays = (getattr(outputs, name) for name in Outputs._fields)
    rows = zip(windows, *arrays, strict=True)
    return [_Decoded(window, Outputs(*row)) for window, *row in rows]


def support_probability(logits: np.ndarray) -> np.ndarray:
    """The sigmoid of support logits of any shape, in float64."""
    # 1 / (1 + exp(-x)) without overflow.
    return np.exp(-np.logaddexp(0.0, -np.float64(logits)))


def official_content(predictions: Mapping[str, Prediction]) -> dict[str, dict]:
    """{"answer": {id: text}, "sp": {id: [(title, index)]}}: the official form."""
    return {
        "answer": {name: p["answer"] for name, p in predictions.items()},
        "sp": {name: p["support"] for name, p in predictions.items()},
    }


def best_span(
    logits: np.ndarray,
    window: HotpotWindow,
    support: np.ndarray,
    max_tokens: int = MAX_ANSWER_TOKENS,
    top: int | None = None,
) -> tuple[int, int] | None:
    """(first, last) long token of the best span; of equal ones the rearmost.

    Args:
      logits: `[n, 2]` of beginnings and ends.
      window: of the tokens.
      support: bool `[g]`, global tokens taken as supporting.
      max_tokens: longest span.
      top: how many beginnings and ends are looked at; None: all.
    """
    return _best_of(best_spans(logits, window, max_tokens, top), support)


def best_spans(
    logits: np.ndarray,
    window: HotpotWindow,
    max_tokens: int = MAX_ANSWER_TOKENS,
    top: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The best span of each sentence and title; of equal ones the rearmost.

    Returns:
      (float64 `[g]`, the spans' scores, -inf for a global token without one; int
      `[g, 2]`, first and last long token).
    """
    sentence = window.structure.links[:, 0].astype(np.int64)
    kinds = np.isin(window.types.long, (SENTENCE_TYPE, TITLE_TYPE))
    allowed = kinds & (sentence >= 0)
    n = 1 + int(np.max(np.flatnonzero(allowed), initial=-1))
    sentence = sentence[:n]
    begin, end = (_scores(logits[:, side], allowed, top)[:n] for side in (0, 1))
    best, last = np.full(n, -np.inf), np.arange(n)  # of the spans that begin here
    for extra in range(min(max_tokens, n)):
        scores = begin[: n - extra] + end[extra:]
        scores[sentence[: n - extra] != sentence[extra:]] = -np.inf
        better = np.flatnonzero(scores >= best[: n - extra])
        best[better], last[better] = scores[better], better + extra
    g = len(window.sentence)
    scores, spans = np.full(g, -np.inf), np.zeros((g, 2), np.int64)
    # From the worst to the best and from the front to the rear: the last one stays.
    order = np.lexsort((np.arange(n), best))
    order = order[np.isfinite(best[order])]
    scores[sentence[order]] = best[order]
    spans[sentence[order]] = np.stack([order, last[order]], axis=1)
    return scores, spans


def _best_of(spans: tuple[np.ndarray, np.ndarray], support: np.ndarray):
    scores, ends = spans
    chosen = np.flatnonzero(support & np.isfinite(scores)).tolist()
    scored = [(scores[i], *ends[i].tolist()) for i in chosen]
    return max(scored)[1:] if scored else None


def _scores(logits: np.ndarray, allowed: np.ndarray, top: int | None) -> np.ndarray:
    scores = np.where(allowed, np.float64(logits), -np.inf)
    if top is not None and top < len(scores):
        # Tokens that are not allowed take places among the best too.
        order = np.argsort(-np.float64(logits), kind="stable")
        scores[order[top:]] = -np.inf
    return scores


def text_of(window: HotpotWindow, first: int, last: int) -> str:
    """The record's text that the long tokens of one sentence or title come from."""
    text = window.texts[window.structure.links[first, 0]]
    return text[window.offsets[first, 0] : window.offsets[last, 1]]


# --- gold answers ---------------------------------------------------------------------


def official_gold(record: Record) -> dict | None:
    """What scoring needs of a record, officially; None without answer or facts."""
    if record.answer is None or record.support is None:
        return None
    facts = [list(fact) for fact in record.support]
    return {"_id": record.id, "answer": record.answer, "supporting_facts": facts}


def gold_outputs(windows: Sequence[HotpotWindow]) -> Outputs:
    """Outputs of a model that is sure of every label: the upper bound of the format.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    labels = [w.labels for w in windows]
    n = len(windows[0].offsets) if windows else 0
    at = np.array([[x["begin"], x["end"]] for x in labels]).reshape(-1, 1, 2)
    support = np.array([x["support"] for x in labels])
    return Outputs(
        support=SURE * (2.0 * support - 1.0),
        answer_type=one_hot(windows, "answer_type", 3),
        span=SURE * (np.arange(n)[None, :, None] == at),
    )


def why_lost(windows: Sequence[Window], prediction: Prediction) -> Iterator[str]:
    """Why the window of a record does not give the gold answer and facts back."""
    [window] = windows
    record, facts = window.record, set(prediction["support"])
    for fact in sorted(set(record.support) - facts):
        exists = fact in existing_support(record)
        yield (
            f"supporting fact {fact} "
            + ("did not fit into the input" if exists else "points nowhere")
        )
    if record.support and not facts:
        yield "without a supporting fact there is no answer"
    yield from lost_answer(window, prediction)


def lost_answer(window: Window, prediction: Prediction) -> Iterator[str]:
    """Why the gold answer is not that of the window's gold outputs."""
    text, answer = prediction["answer"], window.record.answer
    if not exact_match(text, answer):
        yield f"answer {answer!r}: {window.unusable or f'tokens say {text!r}'}"
