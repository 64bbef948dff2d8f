"""Where candidate answers are mentioned in a text."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from etc_jax.data.tokenizers.offsets import continues
from etc_jax.datasets.offsets import TokenizedText

# (candidate, first piece, last piece)
Mention = tuple[int, int, int]
FindFn = Callable[[TokenizedText], Iterator[Mention]]

# No script has accents beyond these planes.
_LAST_MARK = 0x1FFFF
_ASCII_WORD = re.compile(r"\w+|[^\w\s]")


@functools.cache
def _word() -> re.Pattern:
    """A word, with the accents of its letters (of decomposed text too), or a mark."""
    accents = "".join(filter(continues, map(chr, range(0x300, _LAST_MARK))))
    return re.compile(rf"[\w{accents}]+|[^\w\s]")


def _words_of(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _word()).findall(text)


def by_words(candidates: Sequence[TokenizedText]) -> FindFn:
    """Finds mentions as whole words, in any case, whatever the space at punctuation.

    WikiHop's documents have spaces around punctuation, "St . Louis", where candidates
    may have none.
    """
    words = [_words_of(candidate.text) for candidate in candidates]
    lower_words = [[word.lower() for word in text_words] for text_words in words]
    # The longest word is the rarest: what most texts are passed over by.
    keys = [max(text_words, key=len, default="").lower() for text_words in words]
    patterns: list[re.Pattern | None] = [None] * len(words)

    def find(text: TokenizedText) -> Iterator[Mention]:
        lower = text.text.lower()
        is_plain = text.text.isascii()
        for index, key in enumerate(keys):
            if not key or key not in lower:
                continue
            if is_plain and candidates[index].text.isascii():
                spans = _runs(lower_words[index], lower)
            else:
                if patterns[index] is None:
                    patterns[index] = _pattern(words[index])
                matches = map(re.Match.span, patterns[index].finditer(text.text))
                spans = (x for x in matches if _is_whole(text.text, *x))
            for start, stop in spans:
                if span := text.covering(start, stop):
                    yield index, *span

    return find


def _runs(words: Sequence[str], lower: str) -> Iterator[tuple[int, int]]:
    """The matches of `_pattern`, where words and text are ASCII and lower-cased.

    Compiling a pattern takes longer than searching most texts. Beyond ASCII it knows
    more letters to be equal than lower-casing does.
    """
    at = lower.find(words[0])
    while at >= 0:
        stop = _end_of_run(words, lower, at)
        if stop:
            yield at, stop
        at = lower.find(words[0], stop or at + 1)


def _end_of_run(words: Sequence[str], lower: str, at: int) -> int:
    """One past the run of words that begins at a character; 0 if none does."""
    if at and _is_word(words[0]) and _is_word(lower[at - 1]):
        return 0
    stop = at + len(words[0])
    for before, word in itertools.pairwise(words):
        end = stop
        while lower[stop : stop + 1].isspace():
            stop += 1
        apart = _is_word(before) and _is_word(word)
        if (apart and stop == end) or not lower.startswith(word, stop):
            return 0
        stop += len(word)
    inside = _is_word(words[-1]) and stop < len(lower) and _is_word(lower[stop])
    return 0 if inside else stop


def _pattern(words: Sequence[str]) -> re.Pattern:
    parts = [re.escape(words[0])]
    for before, word in zip(words, words[1:], strict=False):
        apart = _is_word(before) and _is_word(word)
        parts += [r"\s+" if apart else r"\s*", re.escape(word)]
    left = r"(?<!\w)" if _is_word(words[0]) else ""
    right = r"(?!\w)" if _is_word(words[-1]) else ""
    return re.compile(left + "".join(parts) + right, re.IGNORECASE)


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"  # as \w


def _is_whole(text: str, start: int, stop: int) -> bool:
    """Whether no accent, which is no word character, ties a match to its neighbours."""
    before, after = text[max(start - 1, 0) : start], text[stop : stop + 1]
    return not (continues(after) or (continues(before) and _is_word(text[start])))


def by_pieces(candidates: Sequence[TokenizedText]) -> FindFn:
    """Finds mentions as the official code does: runs of a candidate's pieces.

    They count only if the lower-cased candidate is in the lower-cased text, and may
    overlap each other and end inside of a word.
    """

    def find(text: TokenizedText) -> Iterator[Mention]:
        lower, ids = text.text.lower(), text.ids
        for index, candidate in enumerate(candidates):
            wanted = candidate.ids
            if not wanted or candidate.text.lower() not in lower:
                continue
            for first in range(len(ids) - len(wanted) + 1):
                if ids[first : first + len(wanted)] == wanted:
                    yield index, first, first + len(wanted) - 1

    return find
