"""From HotpotQA outputs to predictions, and to the official file."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.data.windows.token_types import SENTENCE_TYPE, TITLE_TYPE
from etc_jax.data.windows.window import Window
from etc_jax.scoring import hotpotqa as scoring
from tasks.hotpotqa.inputs import NO, SPAN, YES, HotpotWindow
from tasks.hotpotqa.records import Record

# Best on the development set in the paper (appendix C.2).
THRESHOLD = 0.4
THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(11))
MAX_ANSWER_TOKENS = 30

_SURE = 20.0

# {"answer": text, "support": [(title, sentence)]}
Prediction = dict[str, Any]


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


@dataclasses.dataclass
class Predictions:
    """What the official file holds.

    Attributes:
      answer: text by record id.
      support: (title, sentence) pairs by record id.
    """

    answer: dict[str, str] = dataclasses.field(default_factory=dict)
    support: dict[str, list[tuple[str, int]]] = dataclasses.field(default_factory=dict)

    def official(self) -> dict[str, dict]:
        """{"answer": {id: text}, "sp": {id: [(title, index)]}}: the official form."""
        return {"answer": self.answer, "sp": self.support}


def decode(
    outputs: Outputs,
    windows: Sequence[HotpotWindow],
    *,
    threshold: float = THRESHOLD,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    top: int | None = None,
) -> Predictions:
    """Answers and supporting facts.

    A span lies in one sentence or title whose global token is taken as supporting; if
    there is none, the answer is empty. The best span is exact: the official code looks
    among the 50 best beginnings and ends (`top=50`).

    Args:
      outputs: of the windows, in order.
      windows: as `features` made them.
      threshold: sentences are supporting from this probability on.
      max_answer_tokens: longest span.
      top: how many beginnings and ends are looked at; None: all.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    options = {"max_answer_tokens": max_answer_tokens, "top": top}
    found = decode_each(outputs, windows, (threshold,), **options)
    return collected({w.record.id: p for w, [p] in zip(windows, found, strict=True)})


def decode_each(
    outputs: Outputs,
    windows: Sequence[HotpotWindow],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    top: int | None = None,
) -> list[list[Prediction]]:
    """The prediction of each threshold, for each window; see `decode`.

    The best spans are looked for once, whatever the number of thresholds.
    """
    check_outputs(outputs, windows)
    found = []
    for i, window in enumerate(windows):
        probability = support_probability(outputs.support[i])
        kind = int(np.argmax(outputs.answer_type[i]))
        spans = None
        if kind == SPAN:
            spans = best_spans(outputs.span[i], window, max_answer_tokens, top)
        found.append(
            [_prediction(window, probability >= t, spans, kind) for t in thresholds]
        )
    return found


def support_probability(logits: np.ndarray) -> np.ndarray:
    """The sigmoid of support logits, in float64."""
    # 1 / (1 + exp(-x)) without overflow.
    return np.exp(-np.logaddexp(0.0, -np.float64(logits)))


def _prediction(window, support: np.ndarray, spans, kind: int) -> Prediction:
    if kind == SPAN:
        span = _best_of(spans, support)
        answer = "" if span is None else text_of(window, *span)
    else:
        answer = {YES: "yes", NO: "no"}[kind]
    return {"answer": answer, "support": _facts(window, support)}


def collected(predictions: Mapping[str, Prediction]) -> Predictions:
    """One prediction a record id, as the official file has them."""
    return Predictions(
        answer={name: p["answer"] for name, p in predictions.items()},
        support={name: p["support"] for name, p in predictions.items()},
    )


def official_content(predictions: Mapping[str, Prediction]) -> dict[str, dict]:
    """What the official file holds; see `Predictions.official`."""
    return collected(predictions).official()


def check_outputs(outputs: Outputs, windows: Sequence[HotpotWindow]) -> None:
    """Raises ValueError unless there is a row of finite logits for each window."""
    b = len(windows)
    n, g = (len(windows[0].offsets), len(windows[0].sentence)) if b else (0, 0)
    for name, shape in (("support", (b, g)), ("answer_type", (b, 3)), ("span", None)):
        array = getattr(outputs, name)
        shape = (b, n, 2) if shape is None else shape
        if b and tuple(array.shape) != shape:
            raise ValueError(
                f"{name} logits have shape {tuple(array.shape)}, expected {shape}: "
                "give the outputs of these windows, in their order"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} logits hold NaN or infinity; expected numbers")


def _facts(window: HotpotWindow, support: np.ndarray) -> list[tuple[str, int]]:
    places = np.flatnonzero(support & (window.sentence >= 0)).tolist()
    facts = [
        (
            window.record.paragraphs[window.paragraph[p]].title,
            int(window.sentence[p]),
        )
        for p in places
    ]
    # Two paragraphs of one title give the same fact.
    return list(dict.fromkeys(facts))


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
    scores, places = spans
    chosen = np.flatnonzero(support & np.isfinite(scores)).tolist()
    found = [(scores[i], *places[i].tolist()) for i in chosen]
    return max(found)[1:] if found else None


def _scores(logits: np.ndarray, allowed: np.ndarray, top: int | None) -> np.ndarray:
    scores = np.where(allowed, np.float64(logits), -np.inf)
    if top is not None and top < len(scores):
        order = np.argsort(-np.float64(logits), kind="stable")
        scores[order[top:]] = -np.inf
    return scores


def text_of(window: HotpotWindow, first: int, last: int) -> str:
    """The record's text that the long tokens of one sentence or title come from."""
    text = window.texts[window.structure.links[first, 0]]
    return text[window.offsets[first, 0] : window.offsets[last, 1]]


# --- threshold ------------------------------------------------------------------------


def joint_f1(windows: Sequence[HotpotWindow]) -> Callable[[Predictions], float]:
    """What the threshold is chosen by: the official joint F1 of some windows' records.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows)
    gold = [official_gold(w.record) for w in windows]
    return lambda predictions: scoring.score(gold, predictions.official()).metrics[
        "joint_f1"
    ]


def official_gold(record: Record) -> dict:
    """What scoring needs of a record, in the official form."""
    facts = [list(fact) for fact in record.support]
    return {"_id": record.id, "answer": record.answer, "supporting_facts": facts}


def known_gold(record: Record) -> dict | None:
    """The same; None without a gold answer and supporting facts."""
    if record.answer is None or record.support is None:
        return None
    return official_gold(record)


def best_threshold(
    outputs: Outputs,
    windows: Sequence[HotpotWindow],
    score_fn: Callable[[Predictions], float],
    thresholds: Sequence[float] = THRESHOLDS,
    **options,
) -> tuple[float, list[float]]:
    """The support threshold with the best score on development data (appendix C.2).

    Args:
      outputs: of the windows.
      windows: as `features` made them.
      score_fn: higher is better; the paper takes `joint_f1`.
      thresholds: to be tried, in order; of equal scores the first is taken.
      **options: of `decode`.

    Returns:
      (best threshold, score of each).
    """
    scores = [
        score_fn(decode(outputs, windows, threshold=t, **options)) for t in thresholds
    ]
    return thresholds[int(np.argmax(scores))], scores


# --- files ----------------------------------------------------------------------------


def write(predictions: Predictions, path: str | os.PathLike) -> None:
    """Writes the official file: {"answer": {id: text}, "sp": {id: [[title, i]]}}."""
    text = json.dumps(predictions.official())
    pathlib.Path(path).write_text(text, encoding="utf-8")


def gold_outputs(windows: Sequence[HotpotWindow]) -> Outputs:
    """Outputs of a model that is sure of every label: the upper bound of the format.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows)
    labels = [w.labels for w in windows]
    n = len(windows[0].offsets) if windows else 0
    at = np.array([[x["begin"], x["end"]] for x in labels]).reshape(-1, 1, 2)
    kinds = np.array([x["answer_type"] for x in labels]).reshape(-1, 1)
    support = np.array([x["support"] for x in labels])
    return Outputs(
        support=_SURE * (2.0 * support - 1.0),
        answer_type=_SURE * (np.arange(3) == kinds),
        span=_SURE * (np.arange(n)[None, :, None] == at),
    )


def require_gold(windows: Sequence[Window]) -> None:
    """Raises ValueError if a window's record has no gold answer."""
    for window in windows:
        if known_gold(window.record) is None:
            raise ValueError(
                f"{window.record.id!r} has no gold answer; give records of a training "
                "or development file"
            )
