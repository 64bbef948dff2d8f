"""Where a text that was written has its words from: runs that it shares with a source.

They are the extractive fragments of Grusky et al. 2018 (section 4.1), without the short
ones, which any two texts share.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

LEAST_WORDS = 3

# (first, one past the last) character.
Span = tuple[int, int]
_WORD = re.compile(r"\w+")


class Fragment(NamedTuple):
    """A run of words that two texts share.

    Attributes:
      start: its first word in the text that was written.
      source: its first word in the source.
      length: words.
    """

    start: int
    source: int
    length: int


class Mark(NamedTuple):
    """A part of a text.

    Attributes:
      span: its characters.
      rank: from 1; marks of one rank are of the same words.
    """

    span: Span
    rank: int


def fragments(
    words: Sequence[str], source: Sequence[str], *, least: int = LEAST_WORDS
) -> list[Fragment]:
    """The runs of `words` that `source` has too, each the longest that begins there.

    Time is linear in both lengths, times how often a run of `least` words is repeated
    in the source. Of equally long runs of the source the first is taken.

    Args:
      words: of what was written.
      source: words of what was read.
      least: words of a run, 1 or more.

    Returns:
      Runs, ascending and apart in `words`.
    """
    starts_of: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for i in range(len(source) - least + 1):
        starts_of[tuple(source[i : i + least])].append(i)
    runs, at = [], 0
    while at + least <= len(words):
        starts = starts_of.get(tuple(words[at : at + least]))
        if starts is None:
            at += 1
            continue
        length = least
        while at + length < len(words):
            word, stop = words[at + length], len(source) - length
            longer = [i for i in starts if i < stop and source[i + length] == word]
            if not longer:
                break
            starts, length = longer, length + 1
        runs.append(Fragment(at, starts[0], length))
        at += length
    return runs


def shared_marks(
    text: str, passages: Sequence[str]
) -> tuple[list[Mark], list[list[Mark]]]:
    """(marks of a text, those of each passage) of the words that they share in a row.

    Words are those of letters, digits and underscores, whatever their case. Of fewer
    than `LEAST_WORDS`, such as an answer, all have to be there. Runs of the passages
    that overlap are one mark.

    Args:
      text: that was written.
      passages: of the source, through which runs may go on; one that does is marked in
        each.

    Returns:
      Marks ascending and apart; ranks ascend in `text`, but for words that it repeats.
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    of_source = [
        (number, match.span())
        for number, passage in enumerate(passages)
        for match in _WORD.finditer(passage)
    ]
    runs = fragments(
        [text[a:b].lower() for a, b in spans],
        [passages[number][a:b].lower() for number, (a, b) in of_source],
        least=max(1, min(LEAST_WORDS, len(spans))),
    )
    groups = _groups(runs)
    begins = [start for start, _ in groups]
    ranks: dict[int, int] = {}
    marks = []
    for run in runs:
        group = bisect.bisect_right(begins, run.source) - 1
        rank = ranks.setdefault(group, len(ranks) + 1)
        last = run.start + run.length - 1
        marks.append(Mark((spans[run.start][0], spans[last][1]), rank))
    in_passages: list[list[Mark]] = [[] for _ in passages]
    for group, (start, stop) in enumerate(groups):
        parts = itertools.groupby(of_source[start:stop], lambda word: word[0])
        for number, part in parts:
            characters = [span for _, span in part]
            span = characters[0][0], characters[-1][1]
            in_passages[number].append(Mark(span, ranks[group]))
    return marks, in_passages


def _groups(runs: Sequence[Fragment]) -> list[tuple[int, int]]:
    """(first, one past the last) word of the source, of runs that overlap there."""
    groups: list[tuple[int, int]] = []
    for run in sorted(runs, key=lambda run: run.source):
        stop = run.source + run.length
        if groups and run.source < groups[-1][1]:
            start, last = groups.pop()
            groups.append((start, max(last, stop)))
        else:
            groups.append((run.source, stop))
    return groups
