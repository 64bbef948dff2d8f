"""Where sentencepiece's pieces stand in a text, by spelling the normalised text.

The package's own offsets are of another unit in each of its versions, and the ids may
be cut further than the model cuts (commas after digits).
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence

from etc_jax.data.tokenizers.offsets import continues

SPACE = "\u2581"
# Vowels and final consonants of Hangul, which follow the first one of a syllable.
_JAMO_AFTER_FIRST = frozenset(map(chr, range(0x1160, 0x1200)))


def spelled(model, text: str, pieces: Sequence[str | None]) -> list[tuple[int, int]]:
    """(first, one past the last) character of the text of each piece.

    Args:
      model: the sentencepiece processor, which says how it normalises.
      text: before normalisation.
      pieces: that spell the normalised text; None where one is unknown.

    Raises:
      ValueError: if they do not spell it.
    """
    normal, ranges = _normalised(model, text)
    offsets, at = [], 0
    for i, piece in enumerate(pieces):
        if piece is None:
            stop = _next_known(pieces, i, normal, at)
        elif normal.startswith(piece, at):
            stop = at + len(piece)
        else:
            raise ValueError(
                f"piece {piece!r} is not at character {at} of the normalised text "
                f"{normal[:80]!r}; the tokenizer does not spell its text"
            )
        offsets.append((ranges[at][0], ranges[stop - 1][1]))
        at = stop
    return offsets


def _next_known(pieces: Sequence[str | None], i: int, normal: str, at: int) -> int:
    """Where the unknown piece `i` ends: before the next piece that is known."""
    further = 0  # unknown pieces after it, each with at least one character
    for piece in pieces[i + 1 :]:
        if piece is not None:
            start = normal.find(piece, at + 1 + further)
            return len(normal) if start < 0 else start - further
        further += 1
    return len(normal) - further


def _normalised(model, text: str) -> tuple[str, list[tuple[int, int]]]:
    """The normalised text, and the range of the text of each of its characters."""
    normal = model.Normalize(text).replace(" ", SPACE)
    words = [(m[0], *m.span()) for m in re.finditer(r"\S+", text)]
    same = normal.removeprefix(SPACE) == SPACE.join(word for word, _, _ in words)
    built, ranges = "", []
    for word, start, stop in words:
        whole = word if same else _bare(model, word)
        built += SPACE + whole if whole else ""
        ranges += [(start, start)] if whole else []
        ranges += _characters(model, word, whole, start, stop)
    if built and not normal.startswith(SPACE):
        built, ranges = built[1:], ranges[1:]
    return normal, ranges if built == normal else _by_matching(normal, text)


def _characters(model, word: str, whole: str, start: int, stop: int):
    """The range of the text of each character of a normalised word."""
    if whole == word:
        return [(i, i + 1) for i in range(start, stop)]
    for units in (list(word), _clusters(word)):
        parts = [_bare(model, unit) for unit in units]
        if "".join(parts) == whole:
            ends = list(itertools.accumulate(map(len, units), initial=start))
            ranges = itertools.pairwise(ends)
            return [x for x, part in zip(ranges, parts, strict=True) for _ in part]
    # Other characters that are normalised together: no finer than the word.
    return [(start, stop)] * len(whole)


def _clusters(word: str) -> list[str]:
    """A word cut before each letter, with its accents or as a syllable of Hangul.

    That is what decomposed text (NFD) is composed of.
    """
    units: list[str] = []
    for character in word:
        if units and (continues(character) or character in _JAMO_AFTER_FIRST):
            units[-1] += character
        else:
            units.append(character)
    return units


def _bare(model, text: str) -> str:
    return model.Normalize(text).replace(" ", SPACE).removeprefix(SPACE)


def _by_matching(normal: str, text: str) -> list[tuple[int, int]]:
    """Ranges where the model takes other characters for space than Python does."""
    ranges: list[tuple[int, int]] = []
    matcher = difflib.SequenceMatcher(None, normal, text, autojunk=False)
    for kind, a, b, start, stop in matcher.get_opcodes():
        if kind == "equal":
            ranges += [(i, i + 1) for i in range(start, stop)]
        else:
            ranges += [(start, stop)] * (b - a)
    return ranges
