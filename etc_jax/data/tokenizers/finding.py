"""Encoders that find tokens in texts, as the `tokenizers` package does.

They have `encode_batch` and `encode_with_offsets`, as of `Tokenizer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import models

from etc_jax.data.tokenizers.encoding import encodings
from etc_jax.data.tokenizers.offsets import Offsets

# Where texts have a token: as a whole word or anywhere, with the white space beside it,
# in the text as it is or as it is normalised.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
# Stands before the spelling of a special token, so that no text has it. Unicode has no
# such character.
NO_TEXT = "\uffff"

Encoded = tuple[np.ndarray, np.ndarray]
WithOffsets = tuple[list[int], Offsets]
# (id of a token, None of the text between tokens; its first, one past the last
# character)
_Part = tuple[int | None, int, int]


class PackageEncoder:
    """A tokenizer of the package, with the tokens that were added to it.

    A token that is found is a word.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer):
        self._tokenizer = tokenizer

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        """(ids int64 `[t]`, word starts bool `[t]`) of each text."""
        # Not encode_batch_fast, which does not separate words.
        encoded = encodings(self._tokenizer.encode_batch, texts)
        return [(np.array(e.ids, np.int64), _word_starts(e.word_ids)) for e in encoded]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        """(ids, offsets) of each text, as the package gives them."""
        # Faster forms of the package leave the offsets out.
        encoded = encodings(self._tokenizer.encode_batch, texts)
        return [(e.ids, e.offsets) for e in encoded]


def _word_starts(word_ids: Sequence[int | None]) -> np.ndarray:
    """Which pieces begin a word, bool `[t]`, by the number of each piece's word."""
    words = np.array([-1 if i is None else i for i in word_ids], np.int64)
    # -2 is no word: the first piece begins one.
    return np.diff(words, prepend=-2) != 0


class SegmentEncoder:
    """Finds tokens, and has another encoder read the segments of text between them.

    A segment is encoded like a text: a sentencepiece model puts a space before it.
    """

    def __init__(self, base: Any, tokens: Mapping[int, Mapping[str, Any]]):
        """Takes the encoder of segments, and the tokens.

        Args:
          base: with the methods of this class.
          tokens: by their ids: `content` and `FLAGS`.
        """
        self._base = base
        self._ids = [None, *tokens]
        # To this model, a text without tokens is one unknown word.
        self._cutter = tokenizers.Tokenizer(
            models.WordLevel({NO_TEXT: 0}, unk_token=NO_TEXT)
        )
        self._cutter.add_tokens(
            [
                tokenizers.AddedToken(x["content"], **{flag: x[flag] for flag in FLAGS})
                for x in tokens.values()
            ]
        )

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        """(ids int64 `[t]`, word starts bool `[t]`) of each text."""
        parts = self._parts(texts)
        segments = iter(self._base.encode_batch(list(_segments(texts, parts))))
        encoded = []
        for of_text in parts:
            ids, starts = [np.zeros(0, np.int64)], [np.zeros(0, bool)]
            for token, _, _ in of_text:
                one = (np.array([token]), np.array([True]))
                more_ids, more_starts = next(segments) if token is None else one
                ids.append(more_ids)
                starts.append(more_starts)
            encoded.append((np.concatenate(ids), np.concatenate(starts)))
        return encoded

    def encode_with_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        """(ids, offsets) of each text."""
        parts = self._parts(texts)
        segments = iter(self._base.encode_with_offsets(list(_segments(texts, parts))))
        encoded = []
        for of_text in parts:
            ids: list[int] = []
            offsets: Offsets = []
            for token, start, stop in of_text:
                one = ([token], [(0, stop - start)])
                more_ids, spans = next(segments) if token is None else one
                ids += more_ids
                offsets += [(start + a, start + b) for a, b in spans]
            encoded.append((ids, offsets))
        return encoded

    def _parts(self, texts: Sequence[str]) -> list[list[_Part]]:
        encoded = encodings(self._cutter.encode_batch, texts)
        return [
            [(self._ids[i], *span) for i, span in zip(e.ids, e.offsets, strict=True)]
            for e in encoded
        ]


def _segments(texts: Sequence[str], parts: Sequence[list[_Part]]) -> Iterator[str]:
    for text, of_text in zip(texts, parts, strict=True):
        yield from (text[start:stop] for i, start, stop in of_text if i is None)
