"""OpenKP pages as inputs and labels (ETC paper, appendix C).

Whole elements of the DOM are taken until the next one does not fit. Each has a global
token, to which its words are tied; there is no CLS and no question. In the ablation
with fixed blocks, global tokens do not know of elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from etc_jax.builders import plain_text
from etc_jax.data.token_types import GLOBAL_TYPE, SENTENCE_TYPE
from etc_jax.data.tokenizer_base import Tokenizer
from etc_jax.data.window_fields import Placed
from etc_jax.datasets.offsets import count_pieces
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats import fixed_blocks
from etc_jax.formats import structured as multihop
from etc_jax.formats.structured import Sizes, Window
from etc_jax.ops.ngrams import MAX_WORDS
from etc_jax.types import Rows
from tasks.openkp.records import MAX_KEYPHRASES, MAX_URL_CHARS, Record
from tasks.openkp.visual import visual_arrays

SIZES = Sizes(long_length=4096, global_length=512)

# The official code takes it whatever the vocabulary.
_OFFICIAL_SENTENCE = 1


@dataclasses.dataclass(frozen=True)
class Options(InputOptions):
    """How inputs are made.

    Attributes:
      tokens_per_block: the paper's ablation "fixed blocks": a global token for so many
        long ones, whatever they are; None: one an element.
    """

    tokens_per_block: int | None = None

    def __post_init__(self):
        fixed_blocks.check(self.tokens_per_block)

    def problem(self, objective: Any) -> str | None:
        """See `InputOptions.problem`; the look of an element has its global token."""
        if self.tokens_per_block is None or not objective.visual_features:
            return None
        return (
            f"tokens_per_block={self.tokens_per_block} leaves no global token that is "
            "an element, but objective.visual_features is True: looks are of elements; "
            "set it to False"
        )


@dataclasses.dataclass(frozen=True)
class OpenkpWindow(Window):
    """A page of which the global tokens 0, 1, ... are the elements, or fixed blocks.

    `labels` has of up to three keyphrases, in the order of the record, -1 for none:

        start         int32 [3]   first word of the first occurrence
        length        int32 [3]   number of words
        occurrences   uint8 [n]   by word: bit p is set where keyphrase p begins

    Attributes:
      words: of the input, as the page spells them.
      num_elements: how many elements of the page are in the input: the first ones.
      extra: what the model takes besides: `long_words` int32 `[n]`, the word that a
        long token is a piece of, -1 for padding; and `visual`, a dict of what
        `visual_arrays` makes: of no element with fixed blocks.
    """

    words: tuple[str, ...]
    num_elements: int
    extra: dict[str, Any]

    axes: ClassVar = {
        "long_words": Placed("long", -1),
        "visual": Placed("global"),
        "start": Placed("window", -1),
        "length": Placed("window", -1),
        "occurrences": Placed("long"),
    }


def features(
    record: Record,
    tokenizer: Tokenizer,
    sizes: Sizes = SIZES,
    *,
    options: Options = Options(),  # noqa: B008  (frozen)
    official_quirks: bool = False,
) -> list[OpenkpWindow]:
    """The one window of a page.

    Words are those between single spaces, each tokenised alone. A word without a piece
    is left out, so that the words around it are neighbours.

    Args:
      record: the page.
      tokenizer: with the special tokens of official ETC.
      sizes: lengths of the input. There are at most as many elements as global tokens,
        but any number with fixed blocks.
      options: see there.
      official_quirks: what the official code does wrong is done wrong too: global
        tokens have the same id in every vocabulary; words without a piece, such as
        those between two spaces, are words; keyphrases longer than five words take
        places of labels, of which the loss then makes nothing; and a page with a long
        url is not trained on.

    Raises:
      BadRecordError: if not even the first element fits, or with quirks, there are
        more words than long tokens.
      ValueError: if the tokenizer lacks a special token, or the fixed blocks of a full
        input have no room.
    """
    block = options.tokens_per_block
    if block is not None:
        fixed_blocks.check_room(block, sizes)
    most = sizes.global_length if block is None else None
    page = _page(record, tokenizer, sizes.long_length, most, official_quirks)
    lengths, looks = _global_tokens(page, record, block)
    occurrences = find_occurrences(
        record.keyphrases or (),
        page.words,
        page.elements,
        longest=None if official_quirks else MAX_WORDS,
    )
    n, g = sizes.long_length, sizes.global_length
    token = _OFFICIAL_SENTENCE if official_quirks else tokenizer.special_id("sentence")
    number = len(lengths)
    window = OpenkpWindow(
        record=record,
        tokens=Rows(_padded(page.ids, n, 0), _padded([token] * number, g, 0)),
        types=Rows(
            _padded([SENTENCE_TYPE] * len(page.ids), n, 0),
            _padded([GLOBAL_TYPE] * number, g, 0),
        ),
        structure=plain_text(lengths, long_length=n, global_length=g),
        labels=_labels(occurrences, n),
        unusable=_why_unusable(record, occurrences, official_quirks),
        words=tuple(page.words),
        num_elements=len(page.elements),
        extra={
            "long_words": _padded(page.word, n, -1),
            "visual": visual_arrays(looks, g),
        },
    )
    return [window]


def model_inputs(windows: Sequence[OpenkpWindow]) -> dict[str, Any]:
    """What a model takes of some windows; see `multihop.model_inputs`.

    Returns:
      Also `long_words` `[b, n]`, and as `visual` the fields of `ops.visual.Visual` by
      name, `[b, g]` and `[b, g, 8]`.

    Raises:
      ValueError: if there is no window.
    """
    inputs = multihop.model_inputs(windows)
    looks = [window.extra["visual"] for window in windows]
    return {
        **inputs,
        "long_words": np.stack([window.extra["long_words"] for window in windows]),
        "visual": {name: np.stack([x[name] for x in looks]) for name in looks[0]},
    }


def _global_tokens(
    page: _Page, record: Record, block: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """(long tokens of each, features of those that are elements: all or none)."""
    if block is not None:
        return fixed_blocks.block_lengths(len(page.ids), block), record.features[:0]
    return page.pieces, record.features[: len(page.elements)]


def _padded(values: Sequence[int], length: int, fill: int) -> np.ndarray:
    padded = np.full(length, fill, np.int32)
    padded[: len(values)] = values
    return padded


def _why_unusable(record: Record, occurrences: list, quirks: bool) -> str | None:
    if record.keyphrases is None:
        return "no gold keyphrases"
    if not occurrences:
        return "no keyphrase in the input"
    if quirks and len(record.id) > MAX_URL_CHARS:
        return "url too long"
    return None


# --- words ----------------------------------------------------------------------------


class _Page(NamedTuple):
    """As much of a page as fits.

    Attributes:
      ids: of all pieces.
      word: word of each piece.
      words: all words.
      elements: `[k, 2]`, (first, one past the last) word of each element.
      pieces: `[k]`, how many each element has.
    """

    ids: np.ndarray
    word: np.ndarray
    words: list[str]
    elements: np.ndarray
    pieces: np.ndarray


def _page(
    record: Record,
    tokenizer: Tokenizer,
    room: int,
    most_elements: int | None,
    quirks: bool,
) -> _Page:
    elements = record.elements[:most_elements]
    words = record.text.split(" ")[: elements[-1, 1]]
    ids = _ids_of(words, tokenizer)
    lengths = np.array([len(x) for x in ids])
    # Of words, and of words that have pieces, before each place.
    pieces = np.concatenate([[0], np.cumsum(lengths)])
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
    kept = np.ones(stop, bool) if quirks else lengths > 0
    if np.sum(kept) > room:
        raise BadRecordError(
            "too large",
            f"{record.id!r}: {np.sum(kept)} words, but there is room for {room}",
        )
    place = np.concatenate([[0], np.cumsum(kept)])
    return _Page(
        ids=np.concatenate([np.zeros(0, np.int32), *ids[:stop]]),
        word=np.repeat(place[:-1], lengths),
        words=[word for word, keep in zip(words, kept, strict=True) if keep],
        elements=place[elements],
        pieces=np.diff(pieces[elements], axis=1)[:, 0],
    )


def _ids_of(words: list[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """The ids of each word; words that are there again are tokenised once."""
    different = list(dict.fromkeys(words))
    encoded = tokenizer.encode_batch(different)
    ids = {word: ids for word, (ids, _) in zip(different, encoded, strict=True)}
    return [ids[word] for word in words]


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
      words: of the page; those behind the last element are not looked at.
      elements: `[k, 2]`, (first, one past the last) word of each element, k > 0.
      longest: words of the longest keyphrase; None: any.
    """
    phrases = dict.fromkeys(" ".join(p).lower().strip() for p in keyphrases)
    wanted = [tuple(phrase.split(" ")) for phrase in phrases if phrase]
    lower = [word.lower() for word in words[: elements[-1, 1]]]
    places: dict[str, list[int]] = {phrase[0]: [] for phrase in wanted}
    for i, word in enumerate(lower):
        if word in places:
            places[word].append(i)
    end = np.repeat(elements[:, 1], np.diff(elements, axis=1)[:, 0])
    found = []
    for phrase in wanted:
        k = len(phrase)
        if longest is not None and k > longest:
            continue
        starts = list(_starts(phrase, places[phrase[0]], lower, end))
        if starts:
            found.append(Occurrences(k, starts))
    return found[:MAX_KEYPHRASES]


def _starts(phrase, places, lower, end) -> Iterator[int]:
    k = len(phrase)
    for i in places:
        if i + k <= end[i] and tuple(lower[i : i + k]) == phrase:
            yield i


def _labels(occurrences: Sequence[Occurrences], n: int) -> dict[str, np.ndarray]:
    places = np.zeros(n, np.uint8)
    for p, phrase in enumerate(occurrences):
        places[phrase.starts] |= np.uint8(1 << p)
    return {
        "start": _padded([o.starts[0] for o in occurrences], MAX_KEYPHRASES, -1),
        "length": _padded([o.length for o in occurrences], MAX_KEYPHRASES, -1),
        "occurrences": places,
    }


def whole_length(record: Record, tokenizer: Tokenizer) -> int:
    """Tokens of a record if nothing of it is cut off, special tokens included."""
    return count_pieces(tokenizer, record.text.split(" "))
