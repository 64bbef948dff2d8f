"""Which text shares a window: long documents are split, short ones packed.

After Ainslie et al. 2020, appendix C: documents of fewer than 7 sentences are left
out, documents longer than the long input are split (here between sentences), and as
many short ones as fit share a window, without seeing each other.

What one global token stands for is called a segment: a sentence, or a fixed block of
tokens that ignores sentences ("fixed blocks" in section 4.2 of the paper: one global
token for 97 long ones). A block never crosses documents: the last one of a document in
a window may be shorter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from etc_jax.base.rules import at_least, choice
from etc_jax.data.text.cache import TokenCache
from etc_jax.structure import MAX_GLOBALS

MIN_SENTENCES = 7
MAX_SENTENCE_TOKENS = 128
TOKENS_PER_BLOCK = 97
GlobalTokens = Literal["sentences", "fixed_blocks"]

# Windows looked at for a piece that none is sure to hold: a bound keeps packing linear.
_MAX_CANDIDATES = 64


@dataclasses.dataclass(frozen=True)
class Counts:
    """What became of the text.

    Attributes:
      documents, documents_dropped: packed, and left out for too few sentences.
      tokens, tokens_dropped: those of these documents; together all of the cache.
      sentences_of_text, sentences_split: all of the cache, and those that were cut
        because they were too long.
      windows, long_length: windows and their length in tokens.
      examples: examples that were built so far in this process.
      windows_left_out: windows of which nothing can be missing, among those that an
        example was asked of so far.
      mlm_overflow_tokens: tokens chosen for MLM that had no room in the targets.
      cpc_overflow_sentences: sentences chosen for CPC that had no room.
    """

    documents: int
    documents_dropped: int
    tokens: int
    tokens_dropped: int
    sentences_of_text: int
    sentences_split: int
    windows: int
    long_length: int
    examples: int = 0
    windows_left_out: int = 0
    mlm_overflow_tokens: int = 0
    cpc_overflow_sentences: int = 0

    @classmethod
    def of_text(
        cls,
        cache: TokenCache,
        packed: np.ndarray,
        *,
        max_sentence_tokens: int,
        windows: int,
        long_length: int,
    ) -> Counts:
        """Counts of a text of which some documents are packed.

        Args:
          cache: the text.
          packed: int `[documents]`, those that are packed.
          max_sentence_tokens: longer sentences are cut.
          windows: how many there are.
          long_length: tokens that a window holds.
        """
        tokens = int(cache.tokens_per_document()[packed].sum())
        too_long = np.diff(cache.sentence_offsets) > max_sentence_tokens
        return cls(
            documents=len(packed),
            documents_dropped=cache.num_documents - len(packed),
            tokens=tokens,
            tokens_dropped=cache.num_tokens - tokens,
            sentences_of_text=cache.num_sentences,
            sentences_split=int(too_long.sum()),
            windows=windows,
            long_length=long_length,
        )

    @property
    def fill(self) -> float:
        """Share of the long positions of all windows that hold a token."""
        return self.tokens / max(self.windows * self.long_length, 1)


@dataclasses.dataclass(frozen=True)
class PackingPlan:
    """Windows as runs of segments.

    Segment s is the tokens `segment_offsets[s] : segment_offsets[s + 1]` of the cache.

    Attributes:
      segment_offsets: int64 `[segments + 1]`, over all tokens of the cache.
      pieces: int64 `[pieces, 3]`: (document, first segment, one past the last).
      window_offsets: int64 `[windows + 1]`: the pieces of each window.
      long_length, global_length: tokens and segments that a window holds at most; of
        segments None: any number.
      global_tokens: what a segment is; None: there are no global tokens, and a segment
        is a sentence.
      counts: what was packed and what was left out.
    """

    segment_offsets: np.ndarray
    pieces: np.ndarray
    window_offsets: np.ndarray
    long_length: int
    global_length: int | None
    global_tokens: GlobalTokens | None
    counts: Counts

    @property
    def num_windows(self) -> int:
        return len(self.window_offsets) - 1

    def window(self, index: int) -> np.ndarray:
        """The rows of `pieces` of one window, `[pieces of the window, 3]`."""
        start, stop = self.window_offsets[index : index + 2]
        return self.pieces[start:stop]

    def in_epoch(self, seed: int, epoch: int, source: int = 0) -> PackingPlan:
        """See `reader.Plan`: windows are the same in each epoch."""
        del seed, epoch, source
        return self

    def read(self, cache: TokenCache, index: int) -> PackedWindow:
        """Gathers the text of one window from the cache."""
        pieces = (
            (document, self.segment_offsets[first : stop + 1])
            for document, first, stop in self.window(index).tolist()
        )
        starts = self.global_tokens == "sentences"
        return gather(cache, pieces, sentences_start_words=starts)


def pack(
    cache: TokenCache,
    *,
    long_length: int,
    global_length: int | None,
    max_sentence_tokens: int = MAX_SENTENCE_TOKENS,
    min_sentences: int = MIN_SENTENCES,
    global_tokens: GlobalTokens = "sentences",
    tokens_per_block: int = TOKENS_PER_BLOCK,
) -> PackingPlan:
    """Plans windows such that every token is in one, but for dropped documents.

    Args:
      cache: the text.
      long_length: tokens that a window holds.
      global_length: segments that a window holds; None: any number, as for models that
        have no global tokens.
      max_sentence_tokens: longer sentences are cut, where possible between words.
      min_sentences: documents with fewer (before cutting) are dropped.
      global_tokens: what one global token stands for, where there are some.
      tokens_per_block: length of a fixed block; unused for sentences.

    Raises:
      ValueError: if a length is out of range, or no document is left.
    """
    lengths = {"long_length": long_length, "max_sentence_tokens": max_sentence_tokens}
    lengths["min_sentences"] = min_sentences
    if global_length is None:
        global_tokens = None
    else:
        lengths["global_length"] = global_length
        _check_global_tokens(
            global_tokens, tokens_per_block, long_length, global_length
        )
    check_lengths(lengths)
    documents = kept_documents(cache, min_sentences)
    offsets = cut_sentences(cache, cache.sentence_offsets, max_sentence_tokens)
    borders = np.searchsorted(offsets, cache.sentence_offsets[cache.document_offsets])
    # Blocks are cut later, from tokens: sentences set no limit to them.
    most = global_length if global_tokens == "sentences" else len(offsets)
    pieces = _split_documents(offsets, borders, documents, long_length, most)
    if global_tokens == "fixed_blocks":
        offsets, pieces = _cut_into_blocks(offsets, pieces, tokens_per_block)
    # [pieces], what each takes of a window.
    tokens = offsets[pieces[:, 2]] - offsets[pieces[:, 1]]
    segments = pieces[:, 2] - pieces[:, 1]
    if global_length is None:
        # As if each piece had a global token: so runs of earlier versions packed it.
        taken, room = np.ones_like(segments), min(long_length, MAX_GLOBALS)
    else:
        taken, room = segments, global_length
    windows = best_fit_decreasing(tokens, taken, long_length, room)
    return PackingPlan(
        segment_offsets=offsets,
        pieces=pieces[np.concatenate(windows)],
        window_offsets=np.cumsum([0, *map(len, windows)]),
        long_length=long_length,
        global_length=global_length,
        global_tokens=global_tokens,
        counts=Counts.of_text(
            cache,
            documents,
            max_sentence_tokens=max_sentence_tokens,
            windows=len(windows),
            long_length=long_length,
        ),
    )


def check_lengths(lengths: Mapping[str, int]) -> None:
    """Raises ValueError unless all are positive and a window holds each sentence."""
    at_least(1).check(**lengths)
    max_sentence_tokens = lengths["max_sentence_tokens"]
    if (long_length := lengths["long_length"]) < max_sentence_tokens:
        raise ValueError(
            f"max_sentence_tokens is {max_sentence_tokens}, more than long_length "
            f"{long_length}: such a sentence fits into no window; lower "
            f"max_sentence_tokens to {long_length} or less"
        )


def _check_global_tokens(kind, tokens_per_block, long_length, global_length):
    choice(get_args(GlobalTokens)).check(global_tokens=kind)
    if kind == "sentences":
        return
    at_least(1).check(tokens_per_block=tokens_per_block)
    need = -(-long_length // tokens_per_block)
    if global_length < need:
        raise ValueError(
            f"{long_length} long tokens in blocks of {tokens_per_block} take {need} "
            f"global tokens, but global_length is {global_length}: windows could "
            "never be filled; raise global_length or tokens_per_block"
        )


def kept_documents(cache: TokenCache, min_sentences: int) -> np.ndarray:
    """The documents that have as many sentences: int64 `[documents]`, ascending.

    Raises:
      ValueError: if there is none.
    """
    documents = np.flatnonzero(np.diff(cache.document_offsets) >= min_sentences)
    if not len(documents):
        raise ValueError(
            f"{cache.path}: none of {cache.num_documents} documents has "
            f"{min_sentences} sentences; give longer documents or lower min_sentences"
        )
    return documents


def cut_sentences(cache: TokenCache, offsets: np.ndarray, limit: int) -> np.ndarray:
    """Offsets of sentences with none over `limit` tokens: longer ones are cut.

    Args:
      cache: the text.
      offsets: int64 `[sentences + 1]`, in tokens: some of its sentences, or all.
      limit: tokens of a sentence.
    """
    cuts = [offsets]
    for s in np.flatnonzero(np.diff(offsets) > limit):
        start, stop = int(offsets[s]), int(offsets[s + 1])
        # Bits of words are read for long sentences alone, which are few.
        cuts.append(start + _cuts(cache.word_starts(start, stop), limit))
    return np.sort(np.concatenate(cuts))


def _cuts(word_starts: np.ndarray, limit: int) -> np.ndarray:
    """Places to cut a sentence: parts of about equal length, between words."""
    cuts, start, stop = [], 0, len(word_starts)
    while stop - start > limit:
        parts = -(-(stop - start) // limit)
        # Equal parts, or the last one might be a word long.
        target = start - (-(stop - start) // parts)
        words = np.flatnonzero(word_starts[start + 1 : target + 1])
        # A word longer than a part is cut inside: there is no other place.
        start = start + 1 + int(words[-1]) if len(words) else target
        cuts.append(start)
    return np.array(cuts, np.int64)


def _split_documents(offsets, borders, documents, long_length, most_sentences):
    """Pieces `[pieces, 3]` of documents in order, each as long as a window allows."""
    first, end = borders[documents], borders[documents + 1]
    tokens, sentences = offsets[end] - offsets[first], end - first
    fits = (tokens <= long_length) & (sentences <= most_sentences)
    # Most documents fit: their pieces [documents, 3] are made in one step.
    pieces = [np.stack([documents, first, end], axis=1)[fits]]
    for document, start, stop in zip(
        documents[~fits], first[~fits], end[~fits], strict=True
    ):
        bounds = _split(offsets, int(start), int(stop), long_length, most_sentences)
        # All pieces of the document, [its pieces, 3].
        owner = np.full(len(bounds) - 1, document)
        pieces.append(np.stack([owner, bounds[:-1], bounds[1:]], axis=1))
    pieces = np.concatenate(pieces)
    # Split documents came last: back in the order of the text.
    return pieces[np.argsort(pieces[:, 1], kind="stable")]


def _split(offsets, first: int, end: int, long_length, most_sentences) -> np.ndarray:
    """Borders of the pieces of one document, in sentences."""
    bounds = [first]
    while bounds[-1] < end:
        # Greedy: each piece takes as many sentences as fit, so that pieces are few.
        reach = offsets[bounds[-1]] + long_length
        # The last border that is within reach.
        fits = int(np.searchsorted(offsets, reach, "right")) - 1
        bounds.append(min(fits, bounds[-1] + most_sentences, end))
    return np.array(bounds, np.int64)


def _cut_into_blocks(offsets, pieces, tokens_per_block):
    """(offsets, pieces) with blocks in the place of sentences.

    Text that is in no piece stays one segment, which no window has.
    """
    starts, ends = offsets[pieces[:, 1]], offsets[pieces[:, 2]]
    counts = -(-(ends - starts) // tokens_per_block)
    # 0, 1, ... anew in each piece: [blocks].
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    blocks = np.repeat(starts, counts) + tokens_per_block * within
    all_offsets = np.unique(np.concatenate([[0], blocks, ends, offsets[-1:]]))
    bounds = [np.searchsorted(all_offsets, x) for x in (starts, ends)]
    return all_offsets, np.stack([pieces[:, 0], *bounds], axis=1)


class PackedWindow(NamedTuple):
    """The text of a window.

    Attributes:
      tokens: int32 `[t]`.
      word_starts: bool `[t]`; the first token of a piece starts a word, and so does
        every sentence that has a global token.
      lengths: int64 `[segments]`, in tokens: of sentences, or of fixed blocks.
      piece_ids: int64 `[segments]`: 1, 2, ... by piece of a document.
      documents: int64 `[segments]`.
    """

    tokens: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    piece_ids: np.ndarray
    documents: np.ndarray


def gather(
    cache: TokenCache,
    pieces: Iterable[tuple[int, np.ndarray]],
    *,
    sentences_start_words: bool = False,
) -> PackedWindow:
    """Gathers the text of a window from the cache.

    Args:
      cache: the text.
      pieces: (document, int64 `[segments + 1]` offsets of its segments in tokens), in
        the order of the window.
      sentences_start_words: segments are sentences that each start a word, also where
        one was cut within a word. The first segment of a piece does in any case.
    """
    documents, offsets = zip(*pieces, strict=True)
    tokens, word_starts, lengths = [], [], []
    for borders in offsets:
        start, end = int(borders[0]), int(borders[-1])
        words = cache.word_starts(start, end)
        # A piece may begin within a word, whose start lies in another window.
        words[borders[:-1] - start if sentences_start_words else 0] = True
        tokens.append(cache.tokens[start:end])
        word_starts.append(words)
        lengths.append(np.diff(borders))
    counts = [len(x) for x in lengths]
    return PackedWindow(
        tokens=np.concatenate(tokens).astype(np.int32),
        word_starts=np.concatenate(word_starts),
        lengths=np.concatenate(lengths),
        # [segments], from the count of each piece.
        piece_ids=np.repeat(np.arange(1, len(counts) + 1), counts),
        documents=np.repeat(documents, counts),
    )


class _Rooms:
    """Windows that are not full yet, by how much they still hold.

    Tokens and segments are one number here, in tokens: what is scarcer counts, with
    the segments of a whole window as long as its tokens. So whatever needs no more than
    a room fits into it. (Rounded down, two counts of segments may give one number only
    if a window holds more segments than tokens. They never run out then.) It may fit
    all the same where it needs more: a window short of segments takes long sentences.
    """

    def __init__(self, long_length: int, global_length: int):
        self._whole = long_length, global_length
        self._windows: list[list[int]] = [[] for _ in range(long_length + 1)]
        self._free: dict[int, tuple[int, int]] = {}
        # Bit r is set where a window has room r: the next room in use is found in one
        # operation, however many windows there are.
        self._in_use = 0

    def need(self, tokens, segments):
        """The room that makes sure of so much; also of arrays."""
        long_length, global_length = self._whole
        return np.maximum(tokens, segments * long_length // global_length)

    def add(self, window: int, free_tokens: int, free_segments: int) -> None:
        """Notes a window that still holds so much."""
        long_length, global_length = self._whole
        room = min(free_tokens, free_segments * long_length // global_length)
        if room:
            self._free[window] = free_tokens, free_segments
            self._windows[room].append(window)
            self._in_use |= 1 << room

    def take(self, need: int, tokens: int, segments: int):
        """(window, free tokens, free segments) that holds a piece, or None.

        It is the fullest of those that have the room, or else one of the emptiest that
        have not, but hold the piece. It is taken out.
        """
        rooms = self._in_use >> need
        if rooms:
            # The lowest bit that is set: the smallest room that is enough.
            return self._take(need + (rooms & -rooms).bit_length() - 1, 1)
        left, rooms = _MAX_CANDIDATES, self._in_use
        while rooms and left > 0:
            room = rooms.bit_length() - 1
            rooms ^= 1 << room
            for back, window in enumerate(reversed(self._windows[room][-left:]), 1):
                free_tokens, free_segments = self._free[window]
                if free_tokens >= tokens and free_segments >= segments:
                    return self._take(room, back)
            left -= len(self._windows[room])
        return None

    def _take(self, room: int, back: int) -> tuple[int, int, int]:
        window = self._windows[room].pop(-back)
        if not self._windows[room]:
            self._in_use ^= 1 << room
        return window, *self._free.pop(window)


def best_fit_decreasing(
    tokens: np.ndarray, segments: np.ndarray, long_length: int, global_length: int
) -> list[list[int]]:
    """Piece numbers of each window: largest first, into the fullest that has room.

    Args:
      tokens: int `[pieces]`, of each.
      segments: int `[pieces]`, of each.
      long_length: tokens that a window holds.
      global_length: segments that a window holds.
    """
    windows, rooms = [], _Rooms(long_length, global_length)
    needs = rooms.need(tokens, segments)
    order = np.argsort(-needs, kind="stable")
    columns = order, needs[order], tokens[order], segments[order]
    # Python reads lists much faster than arrays, one element at a time.
    columns = (x.tolist() for x in columns)
    for piece, need, taken_tokens, taken_segments in zip(*columns, strict=True):
        room = rooms.take(need, taken_tokens, taken_segments)
        if room is None:
            room = len(windows), long_length, global_length
            windows.append([])
        window, free_tokens, free_segments = room
        windows[window].append(piece)
        rooms.add(window, free_tokens - taken_tokens, free_segments - taken_segments)
    return windows
