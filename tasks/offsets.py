"""Pieces of a text and where they stand in it."""

from __future__ import annotations

import bisect
import dataclasses
import difflib
import re
from collections.abc import Sequence

from etc_jax.data.tokenizer_base import PackageTokenizer, Tokenizer

_SPACE = "\u2581"


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A text as a tokenizer cuts it.

    Attributes:
      text: the text.
      ids: of the pieces.
      offsets: (first, one past the last) character of each piece. A character that the
        tokenizer drops belongs to none.
    """

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.ids)

    def covering(self, start: int, stop: int) -> tuple[int, int] | None:
        """(first, last) piece with a character in `text[start:stop]`; None if none."""
        first = bisect.bisect_right(self.offsets, start, key=lambda x: x[1])
        last = bisect.bisect_left(self.offsets, stop, key=lambda x: x[0]) - 1
        return (first, last) if first <= last else None

    def is_exact(self, span: tuple[int, int], start: int, stop: int) -> bool:
        """Whether the pieces of a span begin and end at these characters."""
        first, last = span
        return (self.offsets[first][0], self.offsets[last][1]) == (start, stop)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Pieces]:
    """The pieces of each text: ids as of `tokenizer.encode_batch`, with offsets.

    Raises:
      ValueError: if the pieces of a text do not spell it.
    """
    if isinstance(tokenizer, PackageTokenizer):
        # Faster forms of the package leave the offsets out.
        found = tokenizer._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [Pieces(t, e.ids, e.offsets) for t, e in zip(texts, found, strict=True)]
    encoded = [ids.tolist() for ids, _ in tokenizer.encode_batch(texts)]
    return [
        Pieces(text, ids, _spelled(tokenizer, text, ids))
        for text, ids in zip(texts, encoded, strict=True)
    ]


# --- sentencepiece --------------------------------------------------------------------


def surfaces(tokenizer: Tokenizer, pieces: Pieces) -> list[str]:
    """How a sentencepiece model spells each piece; an unknown one as in the text."""
    unknown = tokenizer._model.unk_id()
    return [
        pieces.text[start:stop] if i == unknown else spelled
        for i, spelled, (start, stop) in zip(
            pieces.ids, tokenizer.pieces(pieces.ids), pieces.offsets, strict=True
        )
    ]


def _spelled(tokenizer, text: str, ids: list[int]) -> list[tuple[int, int]]:
    """Offsets of sentencepiece ids, by spelling the normalised text.

    The package's own offsets are of another unit in each of its versions, and the ids
    may be cut further than the model cuts (commas behind digits).
    """
    normal, places = _normalised(tokenizer._model, text)
    unknown = tokenizer._model.unk_id()
    pieces = [
        None if i == unknown else piece
        for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)
    ]
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
        offsets.append(_range(normal, places, at, stop))
        at = stop
    return offsets


def _next_known(pieces: list[str | None], i: int, normal: str, at: int) -> int:
    """Where the unknown piece `i` ends: before the next piece that is known."""
    further = 0  # unknown pieces behind it, each with at least one character
    for piece in pieces[i + 1 :]:
        if piece is not None:
            found = normal.find(piece, at + 1 + further)
            return len(normal) if found < 0 else found - further
        further += 1
    return len(normal) - further


def _range(normal: str, places, at: int, stop: int) -> tuple[int, int]:
    """Characters of the text behind `normal[at:stop]`, without space in front."""
    while at < stop - 1 and normal[at] == _SPACE:
        at += 1
    return places[at][0], places[stop - 1][1]


def _normalised(model, text: str) -> tuple[str, list[tuple[int, int]]]:
    """The normalised text, and the range of the text behind each of its characters."""
    normal = model.Normalize(text).replace(" ", _SPACE)
    words = [(m[0], *m.span()) for m in re.finditer(r"\S+", text)]
    same = normal.removeprefix(_SPACE) == _SPACE.join(word for word, _, _ in words)
    built, places = "", []
    for word, start, stop in words:
        whole = word if same else _bare(model, word)
        built += _SPACE + whole if whole else ""
        places += [(start, start)] if whole else []
        places += _characters(model, word, whole, start, stop)
    if built and not normal.startswith(_SPACE):
        built, places = built[1:], places[1:]
    return normal, places if built == normal else _by_matching(normal, text)


def _characters(model, word: str, whole: str, start: int, stop: int):
    """The range of the text behind each character of a normalised word."""
    if whole == word:
        return [(i, i + 1) for i in range(start, stop)]
    parts = [_bare(model, c) for c in word]
    if "".join(parts) != whole:
        # Characters that are normalised together: no finer than the word.
        return [(start, stop)] * len(whole)
    return [(i, i + 1) for i, part in enumerate(parts, start=start) for _ in part]


def _bare(model, text: str) -> str:
    return model.Normalize(text).replace(" ", _SPACE).removeprefix(_SPACE)


def _by_matching(normal: str, text: str) -> list[tuple[int, int]]:
    """Ranges where the model takes other characters for space than Python does."""
    places: list[tuple[int, int]] = []
    matcher = difflib.SequenceMatcher(None, normal, text, autojunk=False)
    for kind, a, b, start, stop in matcher.get_opcodes():
        if kind == "equal":
            places += [(i, i + 1) for i in range(start, stop)]
        else:
            places += [(start, stop)] * (b - a)
    return places
