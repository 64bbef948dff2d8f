"""Texts to be classified, as inputs of one sequence.

    RoBERTa's vocabulary:  <s> text </s>
    BERT's vocabulary:     [CLS] text [SEP]
    of two texts:          <s> text </s></s> second </s>, [CLS] text [SEP] second [SEP]

The first token is global, and the label is read off it. Of a text that does not fit,
the head is kept; of two, the longer one is cut first.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import Window
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import (
    SequenceSizes,
    SequenceWindow,
    pair_parts,
    parts_of,
    refuse_quirks,
)

SIZES = SequenceSizes(input_length=4096, global_length=1)

# What stands around a text.
_NUM_SPECIAL = 2


class Labelled(Protocol):
    """A record of a data set that gives whole texts a label.

    Attributes:
      labels: all there are, in the order of their numbers.
      id: of the record.
      title: over the text, of which it is no part; may be blank.
      text: with at least one character that is no white space.
      second: another one that is read after it; None without one.
      label: one of `labels`; where there may be any number of them, a tuple; None
        without one.
    """

    labels: tuple[str, ...]
    id: str
    title: str
    text: str
    second: str | None
    label: str | tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class TextWindow(Window):
    """As much of a text as fits, in any format.

    `labels` has `label`; see `label_of`.

    Attributes:
      num_chars: characters of the text that are in the input: the first ones.
      num_second: the same of the second text.
    """

    axes: ClassVar = {"label": Placed()}

    num_chars: int
    num_second: int = 0


@dataclasses.dataclass(frozen=True)
class ClassificationWindow(TextWindow, SequenceWindow):
    """The same in one sequence."""


def features(
    record: Labelled,
    tokenizer: Tokenizer,
    sizes: SequenceSizes = SIZES,
    *,
    official_quirks: bool = False,
) -> list[ClassificationWindow]:
    """The one window of a record.

    White space is read as one space wherever there is some.

    Args:
      record: the text.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator.
      sizes: tokens of the sequence, and places for those of them that are global.
      official_quirks: not for texts to be classified.

    Raises:
      BadRecordError: if the text has no token.
      ValueError: if the sequence has no room for one, the tokenizer lacks a special
        token, or quirks are asked for.
    """
    refuse_quirks("a text to be classified", official_quirks)
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    texts = texts_of(record)
    special = _NUM_SPECIAL + tokenizer.special.pair_separators * (len(texts) - 1)
    room = sizes.input_length - special
    if room < len(texts):
        raise ValueError(
            f"input_length {sizes.input_length} leaves no room for a text; expected at "
            f"least {special + len(texts)}"
        )
    pieces = encode(tokenizer, [" ".join(text.split()) for text in texts])
    if not all(map(len, pieces)):
        raise BadRecordError("no text", f"{record.id!r} has no token")
    counts = kept_tokens(room, list(map(len, pieces)))
    chars = [
        len(text) if most == len(encoded) else _chars_of(text, encoded, most)
        for text, encoded, most in zip(texts, pieces, counts, strict=True)
    ]
    first, *others = (x.ids[:most] for x, most in zip(pieces, counts, strict=True))
    if others:
        second = [*others[0], sep]
        parts = pair_parts(sizes, [cls, *first], second, 1, tokenizer)
    else:
        parts = parts_of(sizes, [cls, *first, sep], range(1))
    label, unusable = label_of(record)
    return [
        ClassificationWindow(
            record=record,
            labels={"label": label},
            unusable=unusable,
            num_chars=chars[0],
            num_second=sum(chars[1:]),
            **parts,
        )
    ]


def texts_of(record: Labelled) -> list[str]:
    """The text, and the second one if there is one."""
    return [record.text] if record.second is None else [record.text, record.second]


def kept_tokens(room: int, lengths: Sequence[int]) -> list[int]:
    """Tokens of one text or two that are kept: the longer one is cut first.

    Args:
      room: for tokens of all.
      lengths: tokens of each.
    """
    if len(lengths) == 1 or sum(lengths) <= room:
        return [min(room, length) for length in lengths]
    first, second = lengths
    of_second = min(second, max(room // 2, room - first))
    return [room - of_second, of_second]


def _chars_of(text: str, pieces: TokenizedText, tokens: int) -> int:
    """Characters of a text that its first tokens reach to."""
    return end_of(text, pieces.text[: pieces.offsets[tokens - 1][1]])


def end_of(text: str, read: str) -> int:
    """The character of a text given its head, of which white space was made single."""
    left = sum(not char.isspace() for char in read)
    ends = (i for i, char in enumerate(text, start=1) if not char.isspace())
    return next(itertools.islice(ends, left - 1, None))


def label_of(record: Labelled) -> tuple[np.ndarray, str | None]:
    """(label, why it cannot be trained on).

    The label is int32 `[]`, its number, or -1 without one; where there may be any
    number of them, `[c]`, 1 for those of the text.

    Raises:
      ValueError: if it has a label, and it is not known which there are.
    """
    if record.label is None:
        return np.array(-1, np.int32), "no gold label"
    if not record.labels:
        raise ValueError(
            f"{record.id!r} has a label, but not all labels are known; give the option "
            "labels, or read the files to learn from first (`Task.completed`)"
        )
    if isinstance(record.label, tuple):
        return np.array([x in record.label for x in record.labels], np.int32), None
    return np.array(record.labels.index(record.label), np.int32), None


def record_length(record: Any, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    texts = [" ".join(text.split()) for text in texts_of(record)]
    separators = tokenizer.special.pair_separators * (len(texts) - 1)
    return _NUM_SPECIAL + separators + count_pieces(tokenizer, texts)
