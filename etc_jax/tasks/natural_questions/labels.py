"""What a window of Natural Questions is trained to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.data.windows.label_names import NATURAL_QUESTIONS_PLACES
from etc_jax.scoring.natural_questions import ENOUGH_ANNOTATORS
from etc_jax.tasks.natural_questions.records import Annotation, Span

# Classes of the answer type, in the order of the official logits.
NULL, YES, NO, LONG, SHORT = range(5)
WORDS = {"yes": YES, "no": NO}
PLACES = NATURAL_QUESTIONS_PLACES


class WindowLabel(NamedTuple):
    """A window's label.

    Attributes:
      type: one of NULL, YES, NO, LONG, SHORT.
      boundaries: long tokens, in the order of `PLACES`; 0 for an end that is not there.
    """

    type: int
    boundaries: tuple[int, int, int, int]


def chosen_annotation(annotations: Sequence[Annotation]) -> Annotation | None:
    """The annotation that stands for all of a record; None if there is none.

    Where several annotators were asked, the official metric wants two of them to have
    given an answer, so two must have here: the first with a short answer if two have
    one, otherwise the first with a long one if two have. Among them, one whose short
    answer is of one span comes first, as a model cannot say more, and for a long
    answer one without a short one.
    """
    if not annotations:
        return None
    enough = min(ENOUGH_ANNOTATORS, len(annotations))
    short = [a for a in annotations if a.has_short]
    long = [a for a in annotations if a.long is not None]
    if len(short) >= enough:
        return min(short, key=lambda a: len(a.short) > 1)
    if len(long) >= enough:
        annotation = min(long, key=lambda a: a.has_short)
        return Annotation(annotation.long, (), "none")
    return Annotation(None, (), "none")


def short_span(annotation: Annotation) -> Span | None:
    """The words from the first short answer to the last; None without one."""
    if not annotation.short:
        return None
    starts, ends = zip(*annotation.short, strict=True)
    return min(starts), max(ends)


def visible_label(
    annotation: Annotation, words: np.ndarray, part: Span, shift: int
) -> WindowLabel:
    """What of an annotation can be read in a window.

    A short answer counts if all of it is there. A long one may be longer than any
    window, so each end of it counts by itself; and a window with an end of it but not
    the short answer has a long answer alone. All places are 0 in a null window.

    Args:
      annotation: of the record.
      words: int `[p]`, ascending, the word of each piece of the article.
      part: (first, one past the last) piece in the window.
      shift: from a piece of the article to its place in the window.
    """

    def positions(span: Span | None) -> tuple[int, int]:
        if span is None:
            return 0, 0
        # Words without a piece are passed over.
        first = int(np.searchsorted(words, span[0]))
        last = int(np.searchsorted(words, span[1])) - 1
        ends = (first, last) if first <= last else (-1, -1)
        start, stop = (i + shift if part[0] <= i < part[1] else 0 for i in ends)
        return start, stop

    long, short = positions(annotation.long), positions(short_span(annotation))
    if not all(short) or annotation.yes_no in WORDS:
        short = (0, 0)
    kind = NULL
    if all(short):
        kind = SHORT
    elif any(long):
        kind = WORDS.get(annotation.yes_no, LONG)
    return WindowLabel(kind, (*short, *long))


def official_label(annotation: Annotation, word: np.ndarray) -> WindowLabel:
    """The same as the official code has it.

    Args:
      annotation: of the record.
      word: int `[n]`, word of each long token; -1 for none.
    """

    def position(wanted: int, index: int) -> int:
        matches = np.flatnonzero(word == wanted)
        return int(matches[index]) if len(matches) else 0

    def ends(spans: Sequence[Span]) -> tuple[int, int]:
        if not spans:
            return 0, 0
        return position(spans[0][0], 0), position(spans[-1][1] - 1, -1)

    long = ends([annotation.long] if annotation.long else [])
    short = ends(annotation.short)
    kind = NULL
    if annotation.yes_no in WORDS:
        kind = WORDS[annotation.yes_no]
    elif annotation.short:
        kind = SHORT if any(short) else NULL
    elif annotation.long:
        kind = LONG if any(long) else NULL
    return WindowLabel(kind, (*short, *long))
