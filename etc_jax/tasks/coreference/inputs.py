"""Coreference records as inputs of an encoder, and the spans that can be mentions.

A document is cut into parts that the encoder sees one by one, a row of its batch each,
and whose rows are then laid end to end (Joshi et al. 2019). A place is that of a token
in this long row: part * n + place in the part.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.offsets import TokenizedText, encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks.coreference.records import Record

_NO_TOKEN = -1


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Spans of words, by first and then by last word; padding is after them.

    Attributes:
      first_tokens, last_tokens: int32 `[m]`, places of the first and the last token;
        0 for padding.
      first_words, last_words: int32 `[m]`, counted over the document; 0 for padding.
      clusters: int32 `[m]`, 1 + index of the cluster of the record that has the span as
        a mention; 0 for none.
      mask: bool `[m]`, False for padding.
      unreachable: mentions of the record that are no candidate.
    """

    first_tokens: np.ndarray
    last_tokens: np.ndarray
    first_words: np.ndarray
    last_words: np.ndarray
    clusters: np.ndarray
    mask: np.ndarray
    unreachable: int

    def padded(self, length: int) -> Candidates:
        """The same with padding up to a length, so that documents have equal shapes.

        Raises:
          ValueError: if there are more.
        """
        if len(self.mask) > length:
            raise ValueError(
                f"{len(self.mask)} candidates, expected at most {length}; pad to more, "
                "or take narrower spans"
            )
        more = [(0, length - len(self.mask))]
        arrays = {
            field.name: np.pad(getattr(self, field.name), more)
            for field in dataclasses.fields(self)
            if field.name != "unreachable"
        }
        return dataclasses.replace(self, **arrays)


@dataclasses.dataclass(frozen=True)
class TokenizedRecord:
    """A record as tokens.

    Attributes:
      record: the record.
      tokens: int32 `[parts, n]`.
      example_ids: int32 `[parts, n]`, 1; 0 for padding.
      word_tokens: int32 `[words, 2]`, places of the first and the last token of each
        word; -1 for a word of which the tokenizer leaves nothing.
    """

    record: Record
    tokens: np.ndarray
    example_ids: np.ndarray
    word_tokens: np.ndarray

    @property
    def num_words(self) -> int:
        return len(self.word_tokens)

    def candidates(self, max_width: int, *, max_tokens: int) -> Candidates:
        """The spans of words inside of one sentence and one part.

        A span that begins or ends with a word without tokens is none.

        Args:
          max_width: of a span, in words.
          max_tokens: of a span, words being few but long at times.

        Raises:
          ValueError: if a size is below 1.
        """
        at_least(1).check(max_width=max_width, max_tokens=max_tokens)
        first, last = self._spans(max_width, max_tokens)
        number = self.num_words
        of_span = {
            a * number + b: index
            for index, mentions in enumerate(self.record.clusters or (), 1)
            for a, b in mentions
        }
        keys = (first * number + last).tolist()
        clusters = np.array([of_span.get(key, 0) for key in keys], np.int32)
        return Candidates(
            first_tokens=self.word_tokens[first, 0],
            last_tokens=self.word_tokens[last, 1],
            first_words=first.astype(np.int32),
            last_words=last.astype(np.int32),
            clusters=clusters,
            mask=np.ones(len(first), bool),
            unreachable=len(of_span) - np.count_nonzero(clusters),
        )

    def _spans(self, max_width: int, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """(first, last) words, int64 `[m]`."""
        lengths = [len(sentence) for sentence in self.record.sentences]
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        # One past the last word that a span from here may have.
        stops = np.minimum(
            np.cumsum(lengths)[sentence], np.arange(self.num_words) + max_width
        )
        widths = stops - np.arange(self.num_words)
        first = np.repeat(np.arange(self.num_words), widths)
        run_starts = np.repeat(np.cumsum(widths) - widths, widths)
        last = first + np.arange(len(first)) - run_starts
        begin, end = self.word_tokens[first, 0], self.word_tokens[last, 1]
        n = self.tokens.shape[1]
        fits = (begin // n == end // n) & (end - begin < max_tokens)
        fits &= (begin != _NO_TOKEN) & (end != _NO_TOKEN)
        return first[fits], last[fits]


def features(
    record: Record, tokenizer: Tokenizer, sizes: SequenceSizes
) -> TokenizedRecord:
    """A record as parts of whole sentences, each as many as have room.

    A sentence that is longer than a part is cut between words. Parts begin and end with
    the tokens that stand at the ends of the tokenizer's texts. Speakers are left out.

    Args:
      record: the words.
      tokenizer: with CLS and separator.
      sizes: `input_length` is n, the length of a part; the rest is not read.

    Raises:
      BadRecordError: if one word alone has no room.
      ValueError: if the tokenizer lacks a special token, or a part has room for none
        but those.
    """
    room = sizes.input_length - 2
    if room < 1:
        raise ValueError(
            f"input_length is {sizes.input_length}; expected 3 or more, as a part has "
            "a token at each end"
        )
    parts: list[list[int]] = [[]]
    positions: list[tuple[int, int]] = []
    # The space in front makes the first word the same pieces as any other.
    texts = ["".join(f" {word}" for word in words) for words in record.sentences]
    for sentence, pieces in zip(
        record.sentences, encode(tokenizer, texts), strict=True
    ):
        words = list(_words(sentence, pieces))
        of_pieces: list[int] = []
        for start, stop in _runs(record, words, len(pieces), room):
            if len(parts[-1]) + stop - start > room:
                parts.append([])
            at = (len(parts) - 1) * sizes.input_length + 1 + len(parts[-1])
            of_pieces += range(at, at + stop - start)
            parts[-1] += pieces.ids[start:stop]
        positions += [
            (_NO_TOKEN, _NO_TOKEN) if w is None else (of_pieces[w[0]], of_pieces[w[1]])
            for w in words
        ]
    return _document(record, tokenizer, sizes.input_length, parts, positions)


def _words(
    sentence: tuple[str, ...], pieces: TokenizedText
) -> Iterator[tuple[int, int] | None]:
    """(first, last) piece of each word; None if it has none."""
    stop = 0
    for word in sentence:
        start = stop + 1
        stop = start + len(word)
        yield pieces.covering(start, stop)


def _runs(
    record: Record, words: list[tuple[int, int] | None], number: int, room: int
) -> Iterator[tuple[int, int]]:
    """(first, one past the last) piece of each run of words that a part has room for.

    Args:
      record: to be named in an error.
      words: pieces of the words of a sentence.
      number: of the pieces of the sentence.
      room: pieces.
    """
    start = reached = 0
    stops = [last + 1 for _, last in filter(None, words)]
    for stop in itertools.chain(stops, [number]):
        if stop - start > room:
            yield start, reached
            start = reached
        if stop - start > room:
            raise BadRecordError(
                "too large",
                f"{record.id!r}: a word has {stop - start} tokens, and a part has room "
                f"for {room}",
            )
        reached = stop
    if reached > start:
        yield start, reached


def _document(
    record: Record,
    tokenizer: Tokenizer,
    length: int,
    parts: list[list[int]],
    positions: list[tuple[int, int]],
) -> TokenizedRecord:
    tokens = np.full((len(parts), length), tokenizer.special_id("pad"), np.int32)
    example_ids = np.zeros((len(parts), length), np.int32)
    begin, end = tokenizer.special_id("cls"), tokenizer.special_id("sep")
    for row, ids in enumerate(parts):
        tokens[row, : len(ids) + 2] = [begin, *ids, end]
        example_ids[row, : len(ids) + 2] = 1
    return TokenizedRecord(record, tokens, example_ids, np.array(positions, np.int32))
