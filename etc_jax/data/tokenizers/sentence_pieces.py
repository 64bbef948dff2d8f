"""Tokenizers of sentencepiece models: T5, and ETC over the RoBERTa vocabulary.

A word starts at a piece with the space marker U+2581, so punctuation after a word
belongs to it, and text of a script without spaces is one word as far as it goes.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sentencepiece

from etc_jax.base.protocol_buffers import fields
from etc_jax.base.registry import register
from etc_jax.data.tokenizers.base import Encoded, Tokenizer
from etc_jax.data.tokenizers.encoding import encoded_by
from etc_jax.data.tokenizers.finding import WithOffsets
from etc_jax.data.tokenizers.sentence_piece_offsets import SPACE, spelled
from etc_jax.data.tokenizers.special_tokens import SENTENCEPIECE, SpecialTokens


@register("tokenizer", "sentencepiece")
class SentencePieceTokenizer(Tokenizer):
    """A sentencepiece model; text is normalised by the model alone.

    Ids that other programs append to the model, such as T5's 100 sentinels, are not in
    the vocabulary.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        model: bytes,
        *,
        split_digit_commas: bool = False,
        special: SpecialTokens = SENTENCEPIECE,
    ):
        """Takes the model.

        Args:
          model: what is in a .model file.
          split_digit_commas: whether a comma that ends a piece after a digit becomes a
            piece of its own, and the rest is cut anew (the rule of XLNet, which
            official ETC follows with the RoBERTa vocabulary; T5 does not).
          special: where special tokens stand.

        Raises:
          ValueError: if it is not a sentencepiece model.
        """
        self._model_bytes = model
        self._model = _read_model(model)
        ids = range(self._model.GetPieceSize())
        pieces = [self._model.IdToPiece(i) for i in ids]
        kinds = (
            *(self._model.IsControl, self._model.IsUnknown),
            *(self._model.IsUnused, self._model.IsByte),
        )
        never_text = np.array([any(is_kind(i) for is_kind in kinds) for i in ids])
        super().__init__(pieces, special, never_text=never_text)
        self.split_digit_commas = split_digit_commas
        self._puts_space_first = self._model.Normalize("a").startswith(SPACE)
        self._starts = np.array([p.startswith(SPACE) for p in pieces])
        self._ends_in_comma = np.array([_ends_in_digit_comma(p) for p in pieces])
        self._spelled = np.array(
            [self._model.IsControl(i) or special.is_reserved(pieces[i]) for i in ids]
        )
        # Models may keep special tokens as symbols that are found in text too.
        self._found_in_text = self._spelled & ~never_text
        self._cuts = re.compile(
            "|".join(
                f"(?={re.escape(p)})"
                for p, is_found in zip(pieces, self._found_in_text, strict=True)
                if is_found
            )
        )

    @classmethod
    def from_model_file(
        cls, path: str | os.PathLike, **options: Any
    ) -> SentencePieceTokenizer:
        """Reads a .model file.

        Args:
          path: the file.
          **options: of the class.

        Raises:
          ValueError: if it is not a sentencepiece model.
          OSError: if it cannot be read.
        """
        try:
            return cls(pathlib.Path(path).read_bytes(), **options)
        except ValueError as e:
            raise ValueError(f"{path}: {e}") from e

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        texts = list(texts)
        encoded = []
        for text, ids in zip(texts, self._encode(texts), strict=True):
            ids = np.array(ids, self.id_dtype)
            if self._found_in_text[ids].any():
                ids = self._encode_as_plain(text)
            if self.split_digit_commas and self._ends_in_comma[ids].any():
                ids = self._split_commas(ids)
            starts = self._starts[ids]
            # Also of a text that begins within a word.
            starts[:1] = True
            encoded.append((ids, starts))
        return encoded

    @property
    def unknown_id(self) -> int:
        """The id of what the model has no piece for."""
        return self._model.unk_id()

    def _with_raw_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        unknown = self.unknown_id
        encoded = []
        for text, (ids, _) in zip(texts, self.encode_batch(texts), strict=True):
            ids = ids.tolist()
            pieces = [None if i == unknown else self._pieces[i] for i in ids]
            encoded.append((ids, spelled(self._model, text, pieces)))
        return encoded

    @property
    def model_file(self) -> bytes:
        """What is in its .model file."""
        return self._model_bytes

    @property
    def is_bpe(self) -> bool:
        """Whether the model merges pairs (BPE), rather than being of Unigram."""
        return _trained_as(self._model_bytes) == _BPE

    def _values(self) -> dict[str, Any]:
        """The model and the options."""
        return {
            "kind": self.kind,
            "split_digit_commas": self.split_digit_commas,
            "special": dataclasses.asdict(self.special),
            "model_base64": base64.b64encode(self._model_bytes).decode("ascii"),
        }

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        return encoded_by(lambda x: self._model.Encode(x, out_type=int), texts)

    def _decode(self, ids: list[int]) -> str:
        # The model leaves control pieces out of the text.
        parts: list[str] = []
        start = 0
        for i in (*np.flatnonzero(self._spelled[ids]).tolist(), len(ids)):
            if start < i:
                parts.append(self._model.Decode(ids[start:i]))
            if i < len(ids):
                parts.append(self._pieces[ids[i]])
            start = i + 1
        return " ".join(parts)

    def _facts(self) -> dict[str, Any]:
        # The table of special tokens is in: its reserved pieces are kept out of text.
        return {
            "model": hashlib.sha256(self._model_bytes).hexdigest(),
            "split_digit_commas": self.split_digit_commas,
            "special": dataclasses.asdict(self.special),
        }

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> SentencePieceTokenizer:
        return cls(
            base64.b64decode(saved["model_base64"], validate=True),
            split_digit_commas=saved["split_digit_commas"],
            special=SpecialTokens(**saved["special"]),
        )

    def _encode_as_plain(self, text: str) -> np.ndarray:
        """Ids of a text in which special tokens are spelled: cut inside each of them.

        The cuts are made in normalised text, in which e.g. full-width letters are
        ordinary ones. A cut after the first character leaves no symbol whole.
        """
        text = self._model.Normalize(text).replace(SPACE, " ")
        if self._puts_space_first:
            text = text.removeprefix(" ")
        cuts = [m.start() + 1 for m in self._cuts.finditer(text)]
        first, *rest = (
            text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)
        )
        ids = self._encode([first])[0]
        for part in rest:
            head, *others = self._continuation(part)
            if self._model.PieceToId(head) == self._model.unk_id():
                others = [*head, *others]  # no such piece inside of words
            else:
                others = [head, *others]
            ids += self._to_ids(others)
        return np.array(ids, self.id_dtype)

    def _continuation(self, text: str) -> list[str]:
        """Pieces of text that does not begin with a space, without one before it."""
        pieces = self._model.Encode(text, out_type=str)
        if self._puts_space_first and pieces[0].startswith(SPACE):
            pieces[:1] = [pieces[0][1:]] if pieces[0] != SPACE else []
        return pieces

    def _to_ids(self, pieces: list[str]) -> list[int]:
        return [self._model.PieceToId(p) for p in pieces]

    def _split_commas(self, ids: np.ndarray) -> np.ndarray:
        comma = self._model.PieceToId(",")
        new: list[int] = []
        for i in ids.tolist():
            if not self._ends_in_comma[i]:
                new.append(i)
                continue
            piece = self._pieces[i]
            rest = piece[:-1].replace(SPACE, "")
            if piece.startswith(SPACE):
                new += self._encode([rest])[0]
            else:
                # A shorter piece that is none becomes unknown, officially too.
                new += self._to_ids(self._continuation(rest))
            new.append(comma)
        return np.array(new, self.id_dtype)


def _ends_in_digit_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


# Of sentencepiece's ModelProto: the field of the trainer's settings, in it that of the
# kind of model, and the numbers of kinds.
_TRAINER, _KIND, _UNIGRAM, _BPE = 2, 3, 1, 2


def _trained_as(model: bytes) -> int:
    """The number of the kind of model, which the package does not give."""
    return dict(_section(model, _TRAINER)).get(_KIND, _UNIGRAM)


def _section(model: bytes, number: int) -> Iterator[tuple[int, Any]]:
    (content,) = [x for n, x in fields(model) if n == number] or [b""]
    return fields(content)


# Of ModelProto: the settings of normalisation, and in them its table of characters.
_NORMALIZER, _CHARACTERS = 3, 2


class Unigram(NamedTuple):
    """What other programs take of a Unigram model.

    Attributes:
      pieces: (piece, log probability) in the order of the model.
      characters: table by which texts are normalised, as sentencepiece compiles it;
        b"": there is none.
    """

    pieces: list[tuple[str, float]]
    characters: bytes


def read_unigram(path: str | os.PathLike) -> Unigram:
    """What is in a .model file.

    Raises:
      ValueError: if it is not a sentencepiece model of kind Unigram.
      OSError: if it cannot be read.
    """
    content = pathlib.Path(path).read_bytes()
    model = _read_model(content)
    if _trained_as(content) != _UNIGRAM:
        raise ValueError(f"{path} is a sentencepiece model, but not of kind Unigram")
    ids = range(model.GetPieceSize())
    pieces = [(model.IdToPiece(i), model.GetScore(i)) for i in ids]
    return Unigram(pieces, dict(_section(content, _NORMALIZER)).get(_CHARACTERS, b""))


def _read_model(model: bytes) -> sentencepiece.SentencePieceProcessor:
    problem = None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as e:
        problem = str(e)
    # Of a model that was not loaded, the package complains when it is asked.
    if problem is None and not processor.GetPieceSize():
        problem = "no piece in it"
    if problem is not None:
        raise ValueError(
            f"{len(model)} bytes that are not a sentencepiece model ({problem}); give "
            "the .model file that sentencepiece wrote"
        )
    return processor
