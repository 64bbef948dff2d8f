"""Where candidate answers are mentioned in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tasks.offsets import Pieces

# (candidate, first piece, last piece)
Mention = tuple[int, int, int]
FindFn = Callable[[Pieces], Iterator[Mention]]

_WORD = re.compile(r"\w+|[^\w\s]")


def by_words(candidates: Sequence[Pieces]) -> FindFn:
    """Finds mentions as whole words, in any case, whatever the space at punctuation.

    WikiHop's documents have spaces around punctuation, "St . Louis", where candidates
    may have none.
    """
    words = [_WORD.findall(candidate.text) for candidate in candidates]
    # The longest word is the rarest: what most texts are passed over by.
    keys = [max(found, key=len, default="").lower() for found in words]
    patterns: list[re.Pattern | None] = [None] * len(words)

    def find(text: Pieces) -> Iterator[Mention]:
        lower = text.text.lower()
        for index, key in enumerate(keys):
            if not key or key not in lower:
                continue
            if patterns[index] is None:
                patterns[index] = _pattern(words[index])
            for match in patterns[index].finditer(text.text):
                if span := text.covering(*match.span()):
                    yield index, *span

    return find


def _pattern(words: Sequence[str]) -> re.Pattern:
    parts = [re.escape(words[0])]
    for before, word in zip(words, words[1:], strict=False):
        apart = _is_word(before) and _is_word(word)
        parts += [r"\s+" if apart else r"\s*", re.escape(word)]
    left = r"(?<!\w)" if _is_word(words[0]) else ""
    right = r"(?!\w)" if _is_word(words[-1]) else ""
    return re.compile(left + "".join(parts) + right, re.IGNORECASE)


def _is_word(token: str) -> bool:
    return re.match(r"\w", token) is not None


def by_pieces(candidates: Sequence[Pieces]) -> FindFn:
    """Finds mentions as the official code does: runs of a candidate's pieces.

    They count only if the lower-cased candidate is in the lower-cased text, and may
    overlap each other and end inside of a word.
    """

    def find(text: Pieces) -> Iterator[Mention]:
        lower, ids = text.text.lower(), text.ids
        for index, candidate in enumerate(candidates):
            wanted = candidate.ids
            if not wanted or candidate.text.lower() not in lower:
                continue
            for first in range(len(ids) - len(wanted) + 1):
                if ids[first : first + len(wanted)] == wanted:
                    yield index, first, first + len(wanted) - 1

    return find
