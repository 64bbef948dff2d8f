"""Where a text has a name of the answer, as TriviaQA's metric reads both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.datasets.spans import Span
from etc_jax.scoring.triviaqa import normalize


class Word(NamedTuple):
    """A word as the official metric compares it, and its characters in the text."""

    text: str
    start: int
    stop: int


class _Marks(dict):
    """For `str.translate`: what the metric reads as a space becomes one."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = char if char.isalnum() or normalize(char) else " "
        return self[code]


_MARKS = _Marks()
_RUN = re.compile(r"\S+")


def words_of(text: str, limit: int | None = None) -> Iterator[Word]:
    """The words that `scoring.triviaqa.normalize` leaves of a text, in order.

    Args:
      text: of a document.
      limit: words that begin at this character or after it are left out.
    """
    lower = text.lower()
    indices: Sequence[int] = range(len(text))
    if len(lower) > len(text):
        # Lower-casing made two characters of one.
        lengths = [len(char.lower()) for char in text]
        indices = np.repeat(indices, lengths).tolist()
    blanked = lower.translate(_MARKS)
    for run in _RUN.finditer(blanked):
        at = run.start()
        # One word, or none, as of an article, or more where an article stood between
        # characters that are neither letters nor marks.
        for word in normalize(run.group()).split():
            at = blanked.index(word, at)
            start = indices[at]
            if limit is not None and start >= limit:
                return
            at += len(word)
            yield Word(word, start, indices[at - 1] + 1)


class AnswerNames:
    """The names of an answer, to be found in texts as the official metric reads them.

    Names are runs of whole words, whatever their case, marks and articles.
    """

    def __init__(self, aliases: Iterable[str]):
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        names = {tuple(normalize(alias).split()) for alias in aliases}
        for name in sorted(names - {()}, key=len, reverse=True):
            self._by_first.setdefault(name[0], []).append(name)

    def find(self, words: Iterable[Word]) -> Iterator[Span]:
        """The characters of each occurrence, in order; they do not overlap.

        Of names that begin at the same word the longest counts.
        """
        words = list(words)
        texts = tuple(word.text for word in words)
        at = 0
        while at < len(words):
            length = self._longest_at(texts, at)
            if length:
                yield words[at].start, words[at + length - 1].stop
            at += max(length, 1)

    def _longest_at(self, texts: tuple[str, ...], at: int) -> int:
        """Words of the longest name that begins at a word; 0 if none does."""
        for name in self._by_first.get(texts[at], ()):
            if texts[at : at + len(name)] == name:
                return len(name)
        return 0
