"""As much of an OpenKP page as fits: words, their pieces, and where keyphrases are.

Whole elements of the DOM are taken until the next one does not fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.window import Window
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import filled
from etc_jax.ops.ngrams import MAX_WORDS
from etc_jax.tasks.openkp.records import MAX_KEYPHRASES, MAX_URL_CHARS, Record


@dataclasses.dataclass(frozen=True)
class PageWindow(Window):
    """A page, in any format.

    `labels` has of up to three keyphrases, in the order of the record, -1 for none:

        start         int32 [3]   first word of the first occurrence
        length        int32 [3]   number of words
        occurrences   uint8 [n]   by word: bit p is set where keyphrase p begins

    Attributes:
      words: of the input, as the page spells them.
      num_elements: how many elements of the page are in the input: the first ones.
    """

    words: tuple[str, ...]
    num_elements: int


def page_axes(axis: str, words: str) -> dict[str, Placed]:
    """Where the labels of a page lie, and the word that each token is a piece of.

    Args:
      axis: of the tokens.
      words: what the latter is called; -1 for special tokens and padding.
    """
    return {
        words: Placed(axis, -1),
        "start": Placed(padding=-1),
        "length": Placed(padding=-1),
        "occurrences": Placed(axis),
    }


class Page(NamedTuple):
    """As much of a page as fits.

    Attributes:
      ids: of all pieces.
      word: number of the word that each piece is of, ascending.
      words: all words.
      elements: `[k, 2]`, (first, one past the last) word of each element.
      pieces: `[k]`, how many each element has.
    """

    ids: np.ndarray
    word: np.ndarray
    words: list[str]
    elements: np.ndarray
    pieces: np.ndarray


def read_page(
    record: Record,
    tokenizer: Tokenizer,
    room: int,
    *,
    most_elements: int | None = None,
    before_word: str = "",
    official_quirks: bool = False,
) -> Page:
    """The first elements of a page, each word tokenised alone.

    A word without a piece is left out, so that the words around it are neighbours.

    Args:
      record: the page.
      tokenizer: for the words.
      room: pieces that fit.
      most_elements: that fit; None: any number.
      before_word: what stands before each word that is not empty, for tokenizers to
        which it makes a difference.
      official_quirks: words without a piece are words.

    Raises:
      BadRecordError: if not even the first element fits, or with quirks, there are
        more words than room.
    """
    elements = record.elements[:most_elements]
    words = record.text.split(" ")[: elements[-1, 1]]
    ids = _ids_of(words, tokenizer, before_word)
    lengths = np.array([len(x) for x in ids])
    # Of words, and of words that have pieces, before each place.
    pieces = np.concatenate([[0], np.cumsum(lengths)])
    # Elements follow each other: those that fit are the first ones.
    number = int(np.sum(pieces[elements[:, 1]] <= room))
    if not number:
        raise BadRecordError(
            "too large",
            f"{record.id!r}: {pieces[elements[0, 1]]} tokens in the first element, but "
            f"there is room for {room}; raise the lengths",
        )
    elements = elements[:number]
    stop = int(elements[-1, 1])
    words, lengths = words[:stop], lengths[:stop]
    keeps = np.ones(stop, bool) if official_quirks else lengths > 0
    if np.sum(keeps) > room:
        raise BadRecordError(
            "too large",
            f"{record.id!r}: {np.sum(keeps)} words, but there is room for {room}",
        )
    # Of each word among those that are kept; one more for the end.
    new_index = np.concatenate([[0], np.cumsum(keeps)])
    return Page(
        ids=np.concatenate([np.zeros(0, np.int32), *ids[:stop]]),
        word=np.repeat(new_index[:-1], lengths),
        words=[word for word, keep in zip(words, keeps, strict=True) if keep],
        elements=new_index[elements],
        pieces=np.diff(pieces[elements], axis=1)[:, 0],
    )


def _ids_of(
    words: list[str], tokenizer: Tokenizer, before_word: str
) -> list[np.ndarray]:
    """The ids of each word; words that are there again are tokenised once."""
    different = list(dict.fromkeys(words))
    encoded = tokenizer.encode_batch(
        [before_word + word if word else "" for word in different]
    )
    ids = {word: ids for word, (ids, _) in zip(different, encoded, strict=True)}
    return [ids[word] for word in words]


def page_fields(
    record: Record,
    page: Page,
    length: int,
    words: str,
    *,
    before: int = 0,
    official_quirks: bool = False,
) -> dict[str, Any]:
    """The fields of a `PageWindow` that are no tokens and no structure.

    Args:
      record: the page.
      page: as much of it as is in the input.
      length: n, tokens of the input, padding included.
      words: see `page_axes`.
      before: tokens before the page.
      official_quirks: keyphrases longer than five words take places of labels, of which
        the loss then makes nothing; and a page with a long url is not trained on.
    """
    occurrences = find_occurrences(
        record.keyphrases or (),
        page.words,
        page.elements,
        longest=None if official_quirks else MAX_WORDS,
    )
    return {
        "record": record,
        "labels": _labels(occurrences, length),
        "unusable": _why_unusable(record, occurrences, official_quirks),
        "words": tuple(page.words),
        "num_elements": len(page.elements),
        "extra": {words: filled(length, -1, page.word, before)},
    }


def _why_unusable(record: Record, occurrences: list, quirks: bool) -> str | None:
    if record.keyphrases is None:
        return "no gold keyphrases"
    if not occurrences:
        return "no keyphrase in the input"
    if quirks and len(record.id) > MAX_URL_CHARS:
        return "url too long"
    return None


# --- labels ---------------------------------------------------------------------------


class Occurrences(NamedTuple):
    """Where a keyphrase is.

    Attributes:
      length: its words.
      starts: first word of each occurrence, ascending; at least one.
    """

    length: int
    starts: list[int]


def find_occurrences(
    keyphrases: Sequence[Sequence[str]],
    words: Sequence[str],
    elements: np.ndarray,
    *,
    longest: int | None = MAX_WORDS,
) -> list[Occurrences]:
    """Where the first three different keyphrases that occur are.

    An occurrence is whole words, whatever their case, inside of one element.

    Args:
      keyphrases: lists of words, or of texts with spaces between words.
      words: of the page; those after the last element are not looked at.
      elements: `[k, 2]`, (first, one past the last) word of each element, k > 0.
      longest: words of the longest keyphrase; None: any.
    """
    phrases = dict.fromkeys(" ".join(p).lower().strip() for p in keyphrases)
    wanted = [tuple(phrase.split(" ")) for phrase in phrases if phrase]
    lower = [word.lower() for word in words[: elements[-1, 1]]]
    starts_of: dict[str, list[int]] = {phrase[0]: [] for phrase in wanted}
    for i, word in enumerate(lower):
        if word in starts_of:
            starts_of[word].append(i)
    end = np.repeat(elements[:, 1], np.diff(elements, axis=1)[:, 0])
    occurrences = []
    for phrase in wanted:
        k = len(phrase)
        if longest is not None and k > longest:
            continue
        starts = list(_starts(phrase, starts_of[phrase[0]], lower, end))
        if starts:
            occurrences.append(Occurrences(k, starts))
    return occurrences[:MAX_KEYPHRASES]


def _starts(phrase, candidates, lower, end) -> Iterator[int]:
    k = len(phrase)
    for i in candidates:
        if i + k <= end[i] and tuple(lower[i : i + k]) == phrase:
            yield i


def _labels(occurrences: Sequence[Occurrences], n: int) -> dict[str, np.ndarray]:
    bits = np.zeros(n, np.uint8)
    for p, phrase in enumerate(occurrences):
        bits[phrase.starts] |= np.uint8(1 << p)
    return {
        "start": filled(MAX_KEYPHRASES, -1, [o.starts[0] for o in occurrences]),
        "length": filled(MAX_KEYPHRASES, -1, [o.length for o in occurrences]),
        "occurrences": bits,
    }
