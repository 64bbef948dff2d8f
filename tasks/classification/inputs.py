"""Texts to be classified, as inputs of one sequence.

    RoBERTa's vocabulary:  <s> text </s>
    BERT's vocabulary:     [CLS] text [SEP]

The first token is global, and the label is read off it. Of a text that does not fit,
the head is kept.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, ClassVar, Protocol

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import (
    SequenceSizes,
    SequenceWindow,
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
      label: one of `labels`; where there may be any number of them, a tuple; None
        without one.
    """

    labels: tuple[str, ...]
    id: str
    title: str
    text: str
    label: str | tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class ClassificationWindow(SequenceWindow):
    """As much of a text as fits.

    `labels` has `label`; see `label_of`.

    Attributes:
      num_chars: characters of the text that are in the input: the first ones.
    """

    axes: ClassVar = {"label": Placed()}

    num_chars: int


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
    room = sizes.input_length - _NUM_SPECIAL
    if room < 1:
        raise ValueError(
            f"input_length {sizes.input_length} leaves no room for a text; expected at "
            f"least {_NUM_SPECIAL + 1}"
        )
    [pieces] = encode(tokenizer, [" ".join(record.text.split())])
    if not len(pieces):
        raise BadRecordError("no text", f"{record.id!r} has no token")
    num_chars = len(record.text)
    if len(pieces) > room:
        read = pieces.text[: pieces.offsets[room - 1][1]]
        num_chars = place_behind(record.text, read)
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    return [_window(record, sizes, [cls, *pieces.ids[:room], sep], num_chars)]


def place_behind(text: str, read: str) -> int:
    """The character of a text given its head, of which white space was made single."""
    left = sum(not char.isspace() for char in read)
    ends = (i for i, char in enumerate(text, start=1) if not char.isspace())
    return next(itertools.islice(ends, left - 1, None))


def label_of(record: Labelled) -> tuple[np.ndarray, str | None]:
    """(label, why it cannot be trained on).

    The label is int32 `[]`, its number, or -1 without one; where there may be any
    number of them, `[c]`, 1 for those of the text.
    """
    if record.label is None:
        return np.array(-1, np.int32), "no gold label"
    if isinstance(record.label, tuple):
        return np.array([x in record.label for x in record.labels], np.int32), None
    return np.array(record.labels.index(record.label), np.int32), None


def _window(
    record: Labelled, sizes: SequenceSizes, ids: list[int], num_chars: int
) -> ClassificationWindow:
    label, unusable = label_of(record)
    return ClassificationWindow(
        record=record,
        labels={"label": label},
        unusable=unusable,
        num_chars=num_chars,
        **parts_of(sizes, ids, range(1)),
    )


def whole_length(record: Any, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return 2 + count_pieces(tokenizer, [" ".join(record.text.split())])
