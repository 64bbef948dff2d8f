"""Which begin and end make an answer to Natural Questions."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

JOINT, DISJOINT, EXHAUSTIVE = MODES = ("joint", "disjoint", "exhaustive")


class SpanBoundary(NamedTuple):
    """Where an answer may begin or end.

    Attributes:
      score: higher is better.
      word: of the article; an end is the last word, not one past it.
      byte: where the word begins, or ends if it is an end; -1 if unknown.
      window: that shows it so.
    """

    score: float
    word: int
    byte: int
    window: int


class FoundSpan(NamedTuple):
    """A span, half-open in words and bytes, and the window that shows it best."""

    span: tuple[int, int]
    bytes: tuple[int, int]
    score: float
    window: int


def best_candidate(
    begins: Sequence[SpanBoundary],
    ends: Sequence[SpanBoundary],
    candidates: Sequence[tuple],
) -> FoundSpan | None:
    """The candidate with the best sum of begin and end; of equal ones the first.

    All pairs are tried whatever the mode: hardly two candidates begin at one word, so
    that the best begin alone would decide.

    Args:
      begins: best first.
      ends: best first.
      candidates: (first word, one past the last, first byte, one past the last) each.
    """
    begin_at, end_at = _best_by_word(begins), _best_by_word(ends)
    best: FoundSpan | None = None
    for first, stop, first_byte, stop_byte in candidates:
        begin, end = begin_at.get(first), end_at.get(stop - 1)
        if begin is None or end is None:
            continue
        candidate = _span(begin, end)._replace(bytes=(first_byte, stop_byte))
        if best is None or candidate.score > best.score:
            best = candidate
    return best


def best_short(
    begins: Sequence[SpanBoundary],
    ends: Sequence[SpanBoundary],
    mode: str,
    max_words: int,
    within: tuple[int, int] | None = None,
) -> FoundSpan | None:
    """The short answer of a mode (see `decoding.pool`), if any.

    Args:
      begins: best first.
      ends: best first.
      mode: one of `MODES`.
      max_words: longest span.
      within: words that it must lie in; None: anywhere.
    """
    low, high = within or (0, float("inf"))
    begins = _inside(_best_by_word(begins), low, high)
    ends = _inside(_best_by_word(ends), low, high)
    if mode == DISJOINT:
        begins, ends = begins[:1], ends[:1]
    by_word = sorted(ends, key=lambda boundary: boundary.word)
    words = [boundary.word for boundary in by_word]
    best: FoundSpan | None = None
    for begin in begins:
        first = bisect.bisect_left(words, begin.word)
        stop = bisect.bisect_left(words, begin.word + max_words)
        end = max(
            by_word[first:stop], key=lambda boundary: boundary.score, default=None
        )
        if end is not None and (best is None or begin.score + end.score > best.score):
            best = _span(begin, end)
        if best is not None and mode == JOINT:
            break
    return best


def _best_by_word(boundaries: Sequence[SpanBoundary]) -> dict[int, SpanBoundary]:
    """The best place of each word, in order; pieces and windows share words."""
    best: dict[int, SpanBoundary] = {}
    for boundary in boundaries:
        best.setdefault(boundary.word, boundary)
    return best


def _inside(
    boundaries: dict[int, SpanBoundary], low: float, high: float
) -> list[SpanBoundary]:
    return [boundary for word, boundary in boundaries.items() if low <= word < high]


def _span(begin: SpanBoundary, end: SpanBoundary) -> FoundSpan:
    has_bytes = begin.byte >= 0 and end.byte >= 0
    return FoundSpan(
        (begin.word, end.word + 1),
        (begin.byte, end.byte) if has_bytes else (-1, -1),
        begin.score + end.score,
        max(begin, end, key=lambda boundary: boundary.score).window,
    )


# --- official -------------------------------------------------------------------------

_NOWHERE = SpanBoundary(0.0, 0, -1, 0)


def official_spans(
    short_begins: Sequence[SpanBoundary],
    short_ends: Sequence[SpanBoundary],
    long_begins: Sequence[SpanBoundary],
    long_ends: Sequence[SpanBoundary],
    mode: str,
    max_short_words: int,
) -> tuple[FoundSpan, FoundSpan]:
    """(short answer, long answer) as the official code chooses them.

    An end that fits no begin is taken all the same, the two in order, and where there
    is no place at all the answer is the first word with score 0.

    Args:
      short_begins: best first, as all four.
      short_ends: of short answers.
      long_begins: of long answers.
      long_ends: of long answers.
      mode: one of `MODES`.
      max_short_words: longest short answer.
    """
    far = float("inf")
    short, long = (short_begins, short_ends), (long_begins, long_ends)
    if mode == EXHAUSTIVE:
        long_span = _exhaustive(*long, far)
        inside = [
            [p for p in boundaries if long_span.span[0] <= p.word < long_span.span[1]]
            for boundaries in short
        ]
        return _exhaustive(*inside, max_short_words), long_span
    if mode == DISJOINT:
        return _ordered(*short, 0), _ordered(*long, 0)
    return _ordered(*short, max_short_words), _ordered(*long, far)


def _ordered(
    begins: Sequence[SpanBoundary], ends: Sequence[SpanBoundary], most: float
) -> FoundSpan:
    """The best begin, then the best end less than `most` words on, else the best."""
    if not begins or not ends:
        return _span(_NOWHERE, _NOWHERE)
    begin = begins[0]
    fitting = (end for end in ends if 0 <= end.word - begin.word < most)
    end = next(fitting, ends[0])
    if end.word < begin.word:
        # The bytes of a swapped pair are those of the wrong sides of their words.
        return _span(end, begin)._replace(bytes=(-1, -1))
    return _span(begin, end)


def _exhaustive(
    begins: Sequence[SpanBoundary], ends: Sequence[SpanBoundary], most: float
) -> FoundSpan:
    """The best pair in order with a score of 0 or more."""
    pairs = (
        _span(begin, end)
        for begin in begins
        for end in ends
        if 0 <= end.word - begin.word < most
    )
    spans = [pair for pair in pairs if pair.score >= 0]
    nothing = _span(_NOWHERE, _NOWHERE)
    return max(spans, key=lambda pair: pair.score, default=nothing)
