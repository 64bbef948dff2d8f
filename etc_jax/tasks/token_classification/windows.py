"""Documents of words as windows in which each word is predicted once."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import Window
from etc_jax.datasets.offsets import count_pieces, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import filled
from etc_jax.tasks.token_classification.document import Record

NO_LABEL = -1
# Byte-level BPE has other pieces for a word that no space stands before.
_SPACE = " "


@dataclasses.dataclass(frozen=True)
class TaggedWindow(Window):
    """Some words of a record, in any format.

    `labels` has `tags` int32 `[n]`: the number of the tag that is learnt at each token,
    -1 for none.

    Attributes:
      words: that are predicted, counted over the record.
      first_pieces: of each, their positions in the input, int `[words]`.
    """

    words: range
    first_pieces: np.ndarray


class WordWindow(NamedTuple):
    """Some words of a record.

    Attributes:
      pieces: ids of the words that are read, one or more for each.
      first: the first of these, counted over the record.
      words: those that are predicted.
    """

    pieces: list[list[int]]
    first: int
    words: range


class SentenceRun(NamedTuple):
    """Words of a window that are of one sentence.

    Attributes:
      sentence: its number in the record.
      start: the first of them, counted over the record.
      stop: one past the last.
    """

    sentence: int
    start: int
    stop: int


def word_texts(record: Record) -> list[str]:
    """The words as they are tokenised: with a space before those that have one."""
    words = [word for sentence in record.sentences for word in sentence]
    if record.text_words is None:
        return [_SPACE + word for word in words]
    offsets = [x for sentence in record.text_words.offsets for x in sentence]
    ends = [-1, *(stop for _, stop in offsets)]
    return [
        word if start == end else _SPACE + word
        for word, (start, _), end in zip(words, offsets, ends, strict=False)
    ]


def windows_of(
    record: Record,
    tokenizer: Tokenizer,
    room: int,
    context: int,
) -> list[WordWindow]:
    """The windows of a record, in order; each word is predicted in one of them.

    Each word is tokenised by itself. One without a piece is read as the token of masked
    ones; of one with more pieces than a window holds, the first ones are kept.

    Args:
      record: with words.
      tokenizer: of the model.
      room: pieces that a window holds.
      context: pieces at most on either side of a window that are read alone.

    Raises:
      BadRecordError: if a word is no Unicode.
      ValueError: if there is no room beside the context, or a word needs a token that
        the vocabulary lacks.
    """
    if room < 1 + 2 * context:
        raise ValueError(
            f"an input has room for {room} tokens of a text, and context is {context} "
            f"on both sides; expected {1 + 2 * context} or more: make inputs longer, "
            "or context smaller"
        )
    pieces = [x.ids[:room] for x in encode(tokenizer, word_texts(record))]
    if not any(pieces):
        raise BadRecordError("no text", f"{record.id!r} has no token")
    pieces = [ids or [tokenizer.special_id("mask")] for ids in pieces]
    ends = list(itertools.accumulate(map(len, record.sentences)))
    cuts = cut([*map(len, pieces)], ends, room=room, context=context)
    return [
        WordWindow(pieces[read.start : read.stop], read.start, words)
        for read, words in cuts
    ]


def cut(
    lengths: Sequence[int], ends: Sequence[int], *, room: int, context: int
) -> list[tuple[range, range]]:
    """(words that are read, words that are predicted) of each window.

    A window ends with a sentence if one ends in the second half of what it could
    predict.

    Args:
      lengths: pieces of each word, 1 to `room`.
      ends: one past the last word of each sentence, ascending.
      room: pieces that a window holds, more than twice the context.
      context: pieces at most on either side that are read alone.
    """
    before = [0, *itertools.accumulate(lengths)]
    number, start, cuts = len(lengths), 0, []

    def within(first: int, pieces: int) -> int:
        """One past the last word up to which there are so many pieces at most."""
        return bisect.bisect_right(before, before[first] + pieces) - 1

    while start < number:
        first = bisect.bisect_left(before, before[start] - context, hi=start)
        stop, read = number, number
        if within(first, room) < number:
            stop = within(first, room - context)
            if stop <= start:  # a long word leaves no room for context
                first, stop = start, max(within(start, room - context), start + 1)
            sentence_end = bisect.bisect_right(ends, stop) - 1
            if sentence_end >= 0 and ends[sentence_end] > (start + stop) // 2:
                stop = ends[sentence_end]
            read = min(within(stop, context), within(first, room))
        cuts.append((range(first, max(read, stop)), range(start, stop)))
        start = stop
    return cuts


def runs_of(record: Record, words: range) -> list[SentenceRun]:
    """The sentences of some words."""
    runs, start = [], 0
    for number, sentence in enumerate(record.sentences):
        stop = start + len(sentence)
        inside = range(max(start, words.start), min(stop, words.stop))
        if inside:
            runs.append(SentenceRun(number, inside.start, inside.stop))
        start = stop
    return runs


def tagged_fields(
    record: Record, window: WordWindow, length: int, all_pieces: bool
) -> dict[str, Any]:
    """The fields of a `TaggedWindow` whose words come after one token.

    Args:
      record: of the window.
      window: of the input.
      length: n, of the input.
      all_pieces: every piece learns the tag of its word.

    Raises:
      ValueError: if the record has tags, and it is not known which there are.
    """
    # [words that are read], after the token in front.
    starts = 1 + np.cumsum([0, *map(len, window.pieces)])
    first_pieces = starts[np.array(window.words) - window.first]
    return {
        "record": record,
        "labels": {"tags": _tags(record, window, first_pieces, length, all_pieces)},
        "unusable": None if record.tags is not None else "no gold tags",
        "words": window.words,
        "first_pieces": first_pieces,
    }


def _tags(
    record: Record,
    window: WordWindow,
    first_pieces: np.ndarray,
    length: int,
    all_pieces: bool,
) -> np.ndarray:
    """The number of the tag that is learnt at each token, int32 `[n]`, -1: none."""
    labels = filled(length, NO_LABEL, ())
    if record.tags is None:
        return labels
    if not record.labels:
        raise ValueError(
            f"{record.id!r} has tags, but not all tags are known; give the option "
            "labels, or read the files to learn from first (`Task.completed`)"
        )
    numbers = {label: i for i, label in enumerate(record.labels)}
    tags = [tag for sentence in record.tags for tag in sentence]
    for word, position in zip(window.words, first_pieces.tolist(), strict=True):
        count = len(window.pieces[word - window.first]) if all_pieces else 1
        labels[position : position + count] = numbers[tags[word]]
    return labels


def num_pieces(record: Record, tokenizer: Tokenizer) -> int:
    """Pieces of all words of a record."""
    return count_pieces(tokenizer, word_texts(record))
