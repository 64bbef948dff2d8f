"""Texts to be classified, as inputs.

In one sequence, of which the first token is global:

    RoBERTa's vocabulary:  <s> text </s>
    BERT's vocabulary:     [CLS] text [SEP]
    of two texts:          <s> text </s></s> second </s>, [CLS] text [SEP] second [SEP]

As structured inputs, where the global [CLS] sees every token, and sentences that have
no global token of their own share the last; a second text is a group apart from the
first one, its long tokens of the type of questions:

    long:    [CLS] text
    global:  [CLS], then one a sentence

The label is read off the first token, of structured inputs the global one. Of a text
that does not fit, the head is kept; of two, the longer one is cut first.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.text.sentences import SplitFn, split_sentences
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.token_types import QUESTION_TYPE, SENTENCE_TYPE
from etc_jax.data.windows.window import InputSizes, Window
from etc_jax.datasets.offsets import TokenizedText, count_pieces, encode
from etc_jax.datasets.paragraphs import by_lines
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import without_quirks
from etc_jax.formats.sequence import SequenceSizes, SequenceWindow, pair_parts, parts_of
from etc_jax.formats.structured import Layout, StructuredSizes, StructuredWindow

SIZES = SequenceSizes(input_length=4096, global_length=1)
STRUCTURED_SIZES = StructuredSizes(long_length=4096, global_length=128)

# Ids of a text, sentence by sentence.
Sentences = list[list[int]]


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


@dataclasses.dataclass(frozen=True)
class StructuredText(TextWindow, StructuredWindow):
    """The same as long and global tokens."""


@without_quirks("a text to be classified")
def features(
    record: Labelled,
    tokenizer: Tokenizer,
    sizes: InputSizes = SIZES,
    *,
    split_fn: SplitFn | None = None,
) -> list[TextWindow]:
    """The one window of a record.

    White space is read as one space wherever there is some. Of structured inputs,
    sentences do not cross lines.

    Args:
      record: the text.
      tokenizer: WordPiece or byte-level BPE with tokens for beginning and separator; of
        structured inputs one with the special tokens of official ETC.
      sizes: lengths of the input, which say its format.
      split_fn: paragraphs to sentences, of structured inputs; None: Punkt, of the
        nupunkt package.

    Raises:
      BadRecordError: if the text has no token.
      ValueError: if there is no room for one, or the tokenizer lacks a special token.
    """
    texts, is_sequence = texts_of(record), isinstance(sizes, SequenceSizes)
    special = _num_special(texts, tokenizer) if is_sequence else 1
    _check_room(sizes, special + len(texts))
    split = _as_one if is_sequence else functools.partial(_sentences, split_fn=split_fn)
    encoded = [encode(tokenizer, split(text)) for text in texts]
    lengths = [sum(map(len, sentences)) for sentences in encoded]
    if not all(lengths):
        raise BadRecordError("no text", f"{record.id!r} has no token")
    counts = kept_tokens(sizes.text_length - special, lengths)
    heads = [_head(*x) for x in zip(encoded, counts, strict=True)]
    chars = [
        len(text) if count == length else end_of(text, read)
        for text, count, length, (_, read) in zip(
            texts, counts, lengths, heads, strict=True
        )
    ]
    cls, fields_of = (
        (ClassificationWindow, _sequence)
        if is_sequence
        else (StructuredText, _structured)
    )
    label, unusable = label_of(record)
    return [
        cls(
            record=record,
            labels={"label": label},
            unusable=unusable,
            num_chars=chars[0],
            num_second=sum(chars[1:]),
            **fields_of([ids for ids, _ in heads], tokenizer, sizes),
        )
    ]


def _num_special(texts: Sequence[str], tokenizer: Tokenizer) -> int:
    """Tokens of a sequence beside those of its texts."""
    return 2 + tokenizer.special.pair_separators * (len(texts) - 1)


def _check_room(sizes: InputSizes, least: int) -> None:
    """Refuses sizes without room for a token of each text, and a sentence of each."""
    if isinstance(sizes, StructuredSizes):
        if min(sizes.long_length, sizes.global_length) < least:
            raise ValueError(
                f"{sizes} leave no room for a text; expected {least} or more"
            )
    elif sizes.input_length < least:
        raise ValueError(
            f"input_length {sizes.input_length} leaves no room for a text; expected at "
            f"least {least}"
        )


def _as_one(text: str) -> list[str]:
    return [" ".join(text.split())]


def _sentences(text: str, split_fn: SplitFn | None = None) -> list[str]:
    return list((split_fn or split_sentences)(by_lines(text)))


def _head(sentences: Sequence[TokenizedText], most: int) -> tuple[Sentences, str]:
    """(ids of the sentences of a text that are read, the text that is).

    Args:
      sentences: of the text.
      most: tokens that are read, one or more.
    """
    ids_of, read = [], []
    for pieces in sentences:
        ids = pieces.ids[:most]
        if not ids:
            continue
        whole = len(ids) == len(pieces)
        ids_of.append(ids)
        read.append(pieces.text[: None if whole else pieces.offsets[len(ids) - 1][1]])
        most -= len(ids)
    return ids_of, "".join(read)


def _sequence(
    texts: Sequence[Sentences], tokenizer: Tokenizer, sizes: SequenceSizes
) -> dict[str, Any]:
    cls, sep = (tokenizer.special_id(role) for role in ("cls", "sep"))
    [first], *others = texts
    if not others:
        return parts_of(sizes, [cls, *first, sep], range(1))
    [[second]] = others
    return pair_parts(sizes, [cls, *first], [*second, sep], 1, tokenizer)


def _structured(
    texts: Sequence[Sentences], tokenizer: Tokenizer, sizes: StructuredSizes
) -> dict[str, Any]:
    layout, cls = Layout(sizes), tokenizer.special_id("cls")
    layout.add_global(cls)
    layout.add_long([cls], SENTENCE_TYPE)
    kinds = (SENTENCE_TYPE, QUESTION_TYPE)
    for later, (kind, sentences) in zip(
        reversed(range(len(texts))), zip(kinds, texts, strict=False), strict=True
    ):
        for number, ids in enumerate(sentences):
            # Each text after this one needs a global token too.
            if not number or layout.fits(0, 1 + later):
                layout.add_global(tokenizer.special_id("sentence"))
            layout.add_long(ids, kind, sentence=layout.num_global - 1)
        layout.close_group()
    return layout.fields()


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
    """Tokens of a sequence if nothing of it is cut off, special tokens included."""
    texts = texts_of(record)
    pieces = count_pieces(tokenizer, [x for text in texts for x in _as_one(text)])
    return _num_special(texts, tokenizer) + pieces


def structured_length(record: Labelled, tokenizer: Tokenizer) -> int:
    """Long tokens if nothing of a record is cut off, special tokens included."""
    sentences = [s for text in texts_of(record) for s in _sentences(text)]
    return 1 + count_pieces(tokenizer, sentences)
