"""Where the pieces of a text begin and end: one rule for tokenizers of all kinds."""

from __future__ import annotations

import unicodedata

Offsets = list[tuple[int, int]]

# Before it no character belongs to another one.
_FIRST_MARK = "\u0300"
# They join letters of Indic scripts and Persian, and emoji (Unicode's UAX 29).
_JOINERS = "\u200c\u200d"


def continues(character: str) -> bool:
    """Whether a character belongs to the one before it: accents, vowel signs, joiners.

    Such as the combining acute accent of decomposed text (NFD) and the vowel signs of
    Devanagari.
    """
    if character < _FIRST_MARK:
        return False
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


def settled(text: str, offsets: Offsets) -> Offsets:
    """The offsets of pieces as `Tokenizer.encode_with_offsets` promises them.

    Byte-level BPE has the space before a word in its piece, and BERT drops accents: its
    offsets would end before the accent of an answer's last letter.

    Args:
      text: that was tokenised.
      offsets: (first, one past the last) character of each piece, going forward.

    Returns:
      The same without white space at the ends, unless a piece has nothing else; a mark
      that the tokenizer dropped belongs to the piece of the character before it.
    """
    dropped = _dropped_marks(text, offsets)
    return [_settled(text, *piece, dropped) for piece in offsets]


def _settled(text: str, start: int, stop: int, dropped: set[int]) -> tuple[int, int]:
    first, last = start, stop
    while first < last and text[first].isspace():
        first += 1
    if first == last:  # white space alone, or no character
        return start, stop
    while text[last - 1].isspace():
        last -= 1
    # Marks that no piece has belong to the character before them.
    while last in dropped:
        last += 1
    return first, last


def _dropped_marks(text: str, offsets: Offsets) -> set[int]:
    """Places of the marks that are in no piece."""
    if text.isascii():
        return set()
    marks = {i for i, character in enumerate(text) if continues(character)}
    if marks:
        for start, stop in offsets:
            marks.difference_update(range(start, stop))
    return marks
