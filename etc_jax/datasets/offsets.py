"""Pieces of a text and where they stand in it."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.tokenizers.encoding import NoUnicodeError
from etc_jax.data.tokenizers.sentence_pieces import SentencePieceTokenizer
from etc_jax.datasets.records import BadRecordError


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """A text as a tokenizer cuts it.

    Attributes:
      text: the text.
      ids: of the pieces.
      offsets: (first, one past the last) character of each piece; see
        `Tokenizer.encode_with_offsets`.
    """

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.ids)

    def covering(self, start: int, stop: int) -> tuple[int, int] | None:
        """(first, last) piece with a character in `text[start:stop]`; None if none."""
        first = bisect.bisect_right(self.offsets, start, key=lambda x: x[1])
        # Offsets go forward, so that both ends can be bisected.
        last = bisect.bisect_left(self.offsets, stop, key=lambda x: x[0]) - 1
        return (first, last) if first <= last else None

    def is_exact(self, span: tuple[int, int], start: int, stop: int) -> bool:
        """Whether the pieces of a span begin and end at these characters."""
        first, last = span
        return (self.offsets[first][0], self.offsets[last][1]) == (start, stop)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenizedText]:
    """The pieces of each text: ids as of `tokenizer.encode_batch`, with offsets.

    Raises:
      BadRecordError: if a text has half a surrogate pair, which JSON can spell and
        UTF-8 cannot.
      ValueError: if the pieces of a text do not spell it.
    """
    try:
        encoded = tokenizer.encode_with_offsets(texts)
    except NoUnicodeError as e:
        raise BadRecordError("no Unicode", str(e)) from e
    return [TokenizedText(t, *pieces) for t, pieces in zip(texts, encoded, strict=True)]


def count_pieces(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """Pieces of some texts; of those that are the same, one is tokenised.

    Raises:
      BadRecordError: as for `encode`.
    """
    counts = collections.Counter(texts)
    encoded = encode(tokenizer, list(counts))
    return sum(len(pieces) * counts[pieces.text] for pieces in encoded)


def occurrences(text: str, part: str) -> list[tuple[int, int]]:
    """(first, one past the last) character of each place of a part; they are apart."""
    matches = re.finditer(re.escape(part), text) if part else ()
    return [match.span() for match in matches]


def surfaces(tokenizer: SentencePieceTokenizer, pieces: TokenizedText) -> list[str]:
    """How a sentencepiece model spells each piece; an unknown one as in the text."""
    return [
        pieces.text[start:stop] if i == tokenizer.unknown_id else spelled
        for i, spelled, (start, stop) in zip(
            pieces.ids, tokenizer.pieces(pieces.ids), pieces.offsets, strict=True
        )
    ]
