"""From Natural Questions outputs to predictions, and to the official file.

An article has many windows. `summarise` keeps of each what may matter, as JSON takes
it; `pool` makes one prediction of all that belong to a record, in any order.

    summaries = summarise(outputs, windows)
    predictions = {record.id: pool(summaries_of_the_record)}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.datasets.decoding import SURE, check_outputs, one_hot, require_gold
from etc_jax.scoring.natural_questions import ENOUGH_ANNOTATORS
from etc_jax.tasks.natural_questions.labels import LONG, NO, NULL, PLACES, SHORT, YES
from etc_jax.tasks.natural_questions.records import Record
from etc_jax.tasks.natural_questions.spans import (
    EXHAUSTIVE,
    JOINT,
    MODES,
    SpanBoundary,
    best_candidate,
    best_short,
    official_spans,
)
from etc_jax.tasks.natural_questions.windows import ArticleWindow

TOP = 50
# Longest short answer, in words: of the paper, and of the official code.
MAX_SHORT_WORDS = 38
OFFICIAL_MAX_SHORT_WORDS = 32

_NO_SPAN = (-1, -1)
# Ids that a number spells in one way.
_NUMBER = re.compile(r"0|-?[1-9][0-9]*")

# What `pool` makes; see there.
Prediction = dict[str, Any]
Summary = dict[str, Any]

NO_ANSWER: Prediction = {
    "long": [-1, -1],
    "long_bytes": [-1, -1],
    "long_score": 0.0,
    "short": [-1, -1],
    "short_bytes": [-1, -1],
    "short_score": 0.0,
    "yes_no": "none",
}


class Outputs(NamedTuple):
    """Logits of some windows, on the host.

    Attributes:
      answer_type: `[b, 5]`: null, yes, no, long, short.
      span: `[b, n, 4]`: begin and end of the short answer, then of the long one.
    """

    answer_type: np.ndarray
    span: np.ndarray


def summarise(
    outputs: Outputs,
    windows: Sequence[ArticleWindow],
    *,
    top: int = TOP,
    official_quirks: bool = False,
) -> list[Summary]:
    """What pooling needs of each window, as JSON takes it.

    Args:
      outputs: of the windows, in order.
      windows: as `features` made them.
      top: how many of the best places of each kind are kept.
      official_quirks: the best places are looked for in question and padding too, and
        a long answer may begin and end anywhere; without, only where one of the
        candidates does, as no other long answer can be right.

    Returns:
      Of each window: `id`, `number`, `count`; `type`, the five logits; `cls`, the four
      span logits of [CLS]; for each of `PLACES` its best [logit, word, byte], byte
      being that of the word's begin or end, -1 if the record has none; `candidates`,
      [first word, one past the last, first byte, one past the last] of each that
      begins or ends at such a place.

    Raises:
      ValueError: if the outputs are not of these windows.
    """
    n = len(windows[0].word) if windows else 0
    check_outputs(outputs._asdict(), windows, {"answer_type": (5,), "span": (n, 4)})
    summaries, borders = [], None
    for i, window in enumerate(windows):
        if borders is None or borders.record is not window.record:
            borders = _Borders(window.record)
        logits = outputs.answer_type[i], outputs.span[i]
        summaries.append(_summary(window, *logits, borders, top, official_quirks))
    return summaries


class _Borders:
    """Where the candidates of a record begin and end."""

    def __init__(self, record: Record):
        self.record = record
        firsts, stops = np.array(record.candidates).T
        self._borders = firsts, stops - 1
        self._is_border = [self._table(words) for words in self._borders]

    def _table(self, words) -> np.ndarray:
        """Which words of the article are among some: bool, one for each."""
        table = np.zeros(len(self.record.words), bool)
        table[words] = True
        return table

    def among(self, words: np.ndarray, kind: int) -> np.ndarray:
        """Which words are the first, or the last (of odd kinds), of a candidate."""
        return (words >= 0) & self._is_border[kind % 2][words]

    def spans(self, begins: list[int], ends: list[int]) -> list[list[int]]:
        """Words and bytes of the candidates with such a first or last word."""
        firsts, lasts = self._borders
        chosen = self._table(begins)[firsts] | self._table(ends)[lasts]
        spans = [self.record.candidates[i] for i in np.flatnonzero(chosen)]
        return [[*span, *self.record.bytes_of(span)] for span in spans]


def _summary(window, types, span, borders: _Borders, top: int, quirks: bool) -> Summary:
    summary: Summary = {
        "id": window.record.id,
        "number": window.number,
        "count": window.count,
        "type": np.float64(types).tolist(),
        "cls": np.float64(span[0]).tolist(),
    }
    for kind, name in enumerate(PLACES):
        logits, allowed = np.float64(span[:, kind]), window.word >= 0
        if not quirks:
            if name.startswith("long"):
                allowed = borders.among(window.word, kind)
            logits = np.where(allowed, logits, -np.inf)
        # Stable: of equal logits the first token counts, on every machine.
        best = np.argsort(-logits, kind="stable")[:top]
        # With quirks, what is no word takes a place among the best and is lost then.
        best = best[allowed[best]]
        words = window.word[best].tolist()
        # Kinds are begin and end by turns: the first byte, or one past the last.
        offsets = [window.record.bytes_of((w, w + 1))[kind % 2] for w in words]
        summary[name] = [
            list(x) for x in zip(logits[best].tolist(), words, offsets, strict=True)
        ]
    begins, ends = ([w for _, w, _ in summary[x]] for x in ("long_begin", "long_end"))
    summary["candidates"] = [] if quirks else borders.spans(begins, ends)
    return summary


# --- pooling --------------------------------------------------------------------------


def pool(
    summaries: Sequence[Summary],
    mode: str = JOINT,
    *,
    max_short_words: int | None = None,
    official_quirks: bool = False,
) -> Prediction:
    """The prediction of a record.

    The score of a place is its logit minus that of [CLS] in the same window, which
    stands for "not in this window"; the best score over all windows counts. A span's
    score is that of its ends, and every record gets its best spans: which scores are
    high enough to be answers, the metric finds out.

    The long answer is the candidate with the best score, both ends of which are among
    the best places of some window. The short answer is, by mode:

      joint: the best begin with an end in reach, and the best of these (the paper's);
      disjoint: best begin and best end, nothing if these are no span;
      exhaustive: the best pair, within the long answer.

    "yes" or "no" replaces it if, in the window that shows the long answer best, its
    type logit is above those of short, long and null. Other windows do not see what
    there is to say yes to. The score is then that of the long answer: there is no span
    to score.

    Args:
      summaries: of all windows of the record.
      mode: one of `MODES`.
      max_short_words: longest short answer; None: 38 as in the paper, 32 in the
        official code.
      official_quirks: a score is a logit divided by that of [CLS]; any span can be a
        long answer; the type is that of the last window; a "yes" or "no" keeps the
        short answer's score.

    Returns:
      `long`, `short`: [first word, one past the last], -1 for none; `long_bytes`,
      `short_bytes`; `long_score`, `short_score`; `yes_no`.

    Raises:
      ValueError: if the mode is unknown, or the windows are not all of a record's.
    """
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r}; there are: {', '.join(MODES)}")
    summaries = _whole(summaries)
    if max_short_words is None:
        max_short_words = (
            OFFICIAL_MAX_SHORT_WORDS if official_quirks else MAX_SHORT_WORDS
        )
    boundaries = {
        name: _boundaries(summaries, i, official_quirks)
        for i, name in enumerate(PLACES)
    }
    if official_quirks:
        return _official_pool(summaries, boundaries, mode, max_short_words)
    spans = sorted({tuple(c) for s in summaries for c in s["candidates"]})
    prediction = dict(NO_ANSWER)
    if long := best_candidate(boundaries["long_begin"], boundaries["long_end"], spans):
        prediction |= _named("long", long.span, long.bytes, long.score)
    within = tuple(prediction["long"]) if mode == EXHAUSTIVE and long else None
    if short := best_short(
        boundaries["short_begin"],
        boundaries["short_end"],
        mode,
        max_short_words,
        within,
    ):
        prediction |= _named("short", short.span, short.bytes, short.score)
    if long and (yes_no := _yes_no(summaries[long.window]["type"])):
        prediction |= _named("short", _NO_SPAN, _NO_SPAN, long.score)
        prediction["yes_no"] = yes_no
    return prediction


def _whole(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries in order, if they are those of one record."""
    if not summaries:
        raise ValueError("no window to pool; expected all of a record")
    ordered = sorted(summaries, key=lambda s: s["number"])
    numbers, count = [s["number"] for s in ordered], ordered[0]["count"]
    names = sorted({s["id"] for s in ordered})
    if len(names) != 1 or numbers != list(range(count)):
        raise ValueError(
            f"windows {numbers} of {names}; expected 0 to {count - 1} of one record"
        )
    return ordered


def _boundaries(
    summaries: Sequence[Summary], kind: int, quirks: bool
) -> list[SpanBoundary]:
    """Every place of a kind, best first; of equal ones the one seen first."""
    boundaries = []
    for window, summary in enumerate(summaries):
        cls = summary["cls"][kind]
        if quirks and not cls:
            raise ValueError(
                f"{summary['id']!r}, window {window}: the logit of [CLS] is 0, and the "
                "official score divides by it; pool without official_quirks"
            )
        for logit, word, byte in summary[PLACES[kind]]:
            score = logit / cls if quirks else logit - cls
            boundaries.append(SpanBoundary(score, word, byte, window))
    return sorted(boundaries, key=lambda p: -p.score)


def _yes_no(types: Sequence[float]) -> str | None:
    """What replaces a short answer (appendix C, inference); None for nothing."""
    best = YES if types[YES] >= types[NO] else NO
    if types[best] <= max(types[NULL], types[LONG], types[SHORT]):
        return None
    return "yes" if best == YES else "no"


def _named(name: str, span, span_bytes, score: float) -> Prediction:
    return {
        name: list(span),
        f"{name}_bytes": list(span_bytes),
        f"{name}_score": score,
    }


def _official_pool(
    summaries, boundaries, mode: str, max_short_words: int
) -> Prediction:
    short, long = official_spans(
        *(boundaries[name] for name in PLACES), mode, max_short_words
    )
    prediction = dict(NO_ANSWER)
    prediction |= _named("long", long.span, long.bytes, long.score)
    prediction |= _named("short", short.span, short.bytes, short.score)
    answer_type = int(np.argmax(summaries[-1]["type"]))
    if answer_type in (YES, NO):
        prediction |= _named("short", _NO_SPAN, _NO_SPAN, short.score)
        prediction["yes_no"] = "yes" if answer_type == YES else "no"
    return prediction


# --- files ----------------------------------------------------------------------------


def official(predictions: Mapping[str, Prediction]) -> dict[str, list[dict]]:
    """{"predictions": [...]}: the official form of predictions by record id."""
    return {"predictions": [_official(*item) for item in predictions.items()]}


def _official(name: str, prediction: Prediction) -> dict[str, Any]:
    short = []
    if prediction["short"][0] >= 0:
        short = [_offsets(prediction["short"], prediction["short_bytes"])]
    return {
        "example_id": int(name) if _NUMBER.fullmatch(name) else name,
        "long_answer": _offsets(prediction["long"], prediction["long_bytes"]),
        "long_answer_score": prediction["long_score"],
        "short_answers": short,
        "short_answers_score": prediction["short_score"],
        "yes_no_answer": prediction["yes_no"],
    }


def _offsets(words: Sequence[int], in_bytes: Sequence[int]) -> dict[str, int]:
    return {
        "start_byte": in_bytes[0],
        "end_byte": in_bytes[1],
        "start_token": words[0],
        "end_token": words[1],
    }


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a record, officially; None without annotations."""
    if record.annotations is None:
        return None
    annotations = [
        {
            "long_answer": _span_of(record, a.long),
            "short_answers": [_span_of(record, span) for span in a.short],
            "yes_no_answer": a.yes_no.upper(),
        }
        for a in record.annotations
    ]
    return {"example_id": record.id, "annotations": annotations}


def unread_gold(name: str) -> dict[str, Any]:
    """Of a record that could not be read, officially: all annotators gave answers."""
    span = _offsets((0, 1), (0, 1))
    annotation = {"long_answer": span, "short_answers": [span], "yes_no_answer": "NONE"}
    return {"example_id": name, "annotations": [annotation] * ENOUGH_ANNOTATORS}


def _span_of(record: Record, span) -> dict[str, int]:
    if span is None:
        return _offsets(_NO_SPAN, _NO_SPAN)
    return _offsets(span, record.bytes_of(span))


def gold_outputs(windows: Sequence[ArticleWindow]) -> Outputs:
    """Outputs of a model that is sure of every label: the upper bound of the format.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    n = len(windows[0].word) if windows else 0
    at = np.array([[w.labels[name] for name in PLACES] for w in windows])
    return Outputs(
        answer_type=one_hot(windows, "answer_type", 5),
        span=SURE * (np.arange(n)[:, None] == at.reshape(-1, 1, 4)),
    )
