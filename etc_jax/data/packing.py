"""Which sentences share a window: long documents are split, short ones packed.

After Ainslie et al. 2020, appendix C: documents of fewer than 7 sentences are left
out, documents longer than the long input are split, and as many short ones as fit
share a window, without seeing each other.
"""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from etc_jax.data.cache import TokenCache

MIN_SENTENCES = 7
# Bins looked at for a piece whose sentences do not fit the fullest ones. A bound keeps
# packing near linear where the sentences, not the tokens, fill the windows.
_MAX_CANDIDATES = 64


@dataclasses.dataclass(frozen=True)
class Counts:
    """What became of the text.

    Attributes:
      documents, documents_dropped: packed, and left out for too few sentences.
      tokens, tokens_dropped: likewise; together all tokens of the cache.
      sentences: packed, after splitting.
      sentences_split: sentences that were too long and were cut.
      pieces: runs of sentences of one document in one window.
      windows, long_length: windows and their length in tokens.
      examples: examples that masking has built so far.
      mlm_overflow_tokens: tokens chosen for MLM that had no room in the targets.
      cpc_overflow_sentences: sentences chosen for CPC that had no room.
    """

    documents: int
    documents_dropped: int
    tokens: int
    tokens_dropped: int
    sentences: int
    sentences_split: int
    pieces: int
    windows: int
    long_length: int
    examples: int = 0
    mlm_overflow_tokens: int = 0
    cpc_overflow_sentences: int = 0

    @property
    def fill(self) -> float:
        """Share of the long positions of all windows that hold a token."""
        return self.tokens / max(self.windows * self.long_length, 1)


@dataclasses.dataclass(frozen=True)
class PackingPlan:
    """Windows as runs of sentences.

    Sentences are numbered after splitting: sentence s is the tokens
    `sentence_offsets[s] : sentence_offsets[s + 1]` of the cache.

    Attributes:
      sentence_offsets: int64 `[sentences + 1]`, over all tokens of the cache.
      pieces: int64 `[pieces, 3]`: (document, first sentence, one past the last).
      window_offsets: int64 `[windows + 1]`: the pieces of each window.
      long_length, global_length: tokens and sentences that a window holds at most.
      counts: what was packed and what was left out.
    """

    sentence_offsets: np.ndarray
    pieces: np.ndarray
    window_offsets: np.ndarray
    long_length: int
    global_length: int
    counts: Counts

    @property
    def num_windows(self) -> int:
        return len(self.window_offsets) - 1

    def window(self, index: int) -> np.ndarray:
        """The rows of `pieces` of one window, `[pieces of the window, 3]`."""
        start, stop = self.window_offsets[index : index + 2]
        return self.pieces[start:stop]


def pack(
    cache: TokenCache,
    *,
    long_length: int,
    global_length: int,
    max_sentence_tokens: int = 128,
    min_sentences: int = MIN_SENTENCES,
) -> PackingPlan:
    """Plans windows such that every token is in one, but for dropped documents.

    Args:
      cache: the text.
      long_length: tokens that a window holds.
      global_length: sentences that a window holds.
      max_sentence_tokens: longer sentences are cut, where possible between words.
      min_sentences: documents with fewer (before cutting) are dropped.

    Raises:
      ValueError: if a length is out of range, or no document is left.
    """
    if not 1 <= max_sentence_tokens <= long_length or global_length < 1:
        raise ValueError(
            f"long_length {long_length}, global_length {global_length} and "
            f"max_sentence_tokens {max_sentence_tokens} do not go together; expected "
            "1 <= max_sentence_tokens <= long_length and global_length >= 1"
        )
    kept = np.flatnonzero(np.diff(cache.document_offsets) >= min_sentences)
    if not len(kept):
        raise ValueError(
            f"{cache.path}: none of {cache.num_documents} documents has "
            f"{min_sentences} sentences; give longer documents or lower min_sentences"
        )
    offsets, num_cut = _cut_sentences(cache, max_sentence_tokens)
    borders = np.searchsorted(offsets, cache.sentence_offsets[cache.document_offsets])
    pieces = _split_documents(offsets, borders, kept, long_length, global_length)
    tokens = offsets[pieces[:, 2]] - offsets[pieces[:, 1]]
    sentences = pieces[:, 2] - pieces[:, 1]
    windows = _best_fit_decreasing(tokens, sentences, long_length, global_length)
    counts = Counts(
        documents=len(kept),
        documents_dropped=cache.num_documents - len(kept),
        tokens=int(tokens.sum()),
        tokens_dropped=cache.num_tokens - int(tokens.sum()),
        sentences=int(sentences.sum()),
        sentences_split=num_cut,
        pieces=len(pieces),
        windows=len(windows),
        long_length=long_length,
    )
    return PackingPlan(
        sentence_offsets=offsets,
        pieces=pieces[np.concatenate(windows)],
        window_offsets=np.cumsum([0, *map(len, windows)]),
        long_length=long_length,
        global_length=global_length,
        counts=counts,
    )


def _cut_sentences(cache: TokenCache, limit: int) -> tuple[np.ndarray, int]:
    """(sentence offsets with no sentence over `limit` tokens, sentences cut)."""
    offsets = np.asarray(cache.sentence_offsets)
    too_long = np.flatnonzero(np.diff(offsets) > limit)
    cuts = [offsets]
    for s in too_long:
        start, stop = int(offsets[s]), int(offsets[s + 1])
        cuts.append(start + _cuts(cache.word_starts(start, stop), limit))
    return np.sort(np.concatenate(cuts)), len(too_long)


def _cuts(word_starts: np.ndarray, limit: int) -> np.ndarray:
    """Places to cut a sentence: parts of about equal length, between words."""
    cuts, start, stop = [], 0, len(word_starts)
    while stop - start > limit:
        parts = -(-(stop - start) // limit)
        target = start - (-(stop - start) // parts)
        words = np.flatnonzero(word_starts[start + 1 : target + 1])
        # A word longer than a part is cut inside: there is no other place.
        start = start + 1 + int(words[-1]) if len(words) else target
        cuts.append(start)
    return np.array(cuts, np.int64)


def _split_documents(offsets, borders, kept, long_length, global_length):
    """Pieces `[pieces, 3]` of documents, each as long as a window allows."""
    pieces = []
    for document in kept:
        first, end = int(borders[document]), int(borders[document + 1])
        while first < end:
            fits = np.searchsorted(offsets, offsets[first] + long_length, "right") - 1
            stop = min(int(fits), first + global_length, end)
            pieces.append((document, first, stop))
            first = stop
    return np.array(pieces, np.int64)


def _best_fit_decreasing(tokens, sentences, long_length, global_length):
    """Piece numbers of each window: longest first, into the fullest that has room."""
    windows: list[list[int]] = []
    free_sentences: list[int] = []
    free: list[tuple[int, int]] = []  # (free tokens, window), sorted
    for piece in np.argsort(-tokens, kind="stable").tolist():
        need, need_sentences = int(tokens[piece]), int(sentences[piece])
        at = bisect.bisect_left(free, (need, -1))
        for i in range(at, min(at + _MAX_CANDIDATES, len(free))):
            if free_sentences[free[i][1]] >= need_sentences:
                room, window = free.pop(i)
                break
        else:
            room, window = long_length, len(windows)
            windows.append([])
            free_sentences.append(global_length)
        windows[window].append(piece)
        free_sentences[window] -= need_sentences
        if room > need and free_sentences[window]:
            bisect.insort(free, (room - need, window))
    return windows
