"""Windows of documents that follow each other at random.

As the corpus "C4" of Xiong et al. 2022 (section 2.2 and table 2): in each epoch the
documents come in another order, follow each other, and are cut every so many tokens.
So which documents share a window is left to chance; best-fit packing (`packing`) puts
together those whose lengths fit, always the same. A document of n tokens is in at most
`ceil(n / long_length) + 1` windows.

The last window of an epoch has what is left, and is shorter. So every token is read
exactly once in an epoch, an evaluation counts all of them, and a text shorter than a
window has one. If it were dropped, each epoch would leave out other tokens; if the next
epoch filled it, a window would no longer be a function of one epoch.

A reader takes the windows of an epoch in a random order (`reader`), so that the parts
of a long document are in different batches.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from etc_jax.data.pretraining import masking
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import (
    MAX_SENTENCE_TOKENS,
    MIN_SENTENCES,
    Counts,
    PackedWindow,
    check_lengths,
    cut_sentences,
    gather,
    kept_documents,
)

# Steps walk through epochs, so that two orders serve every batch.
_EPOCHS_AT_HAND = 2


class Concatenation:
    """Windows of concatenated documents, in another order in each epoch.

    It takes 16 bytes of memory a document, and as many for each of two epochs.

    Attributes:
      num_windows: of an epoch.
      counts: what is in them and what was left out.
    """

    def __init__(
        self,
        cache: TokenCache,
        *,
        long_length: int,
        max_sentence_tokens: int = MAX_SENTENCE_TOKENS,
        min_sentences: int = MIN_SENTENCES,
    ):
        """See the class.

        Args:
          cache: the text.
          long_length: tokens of a window.
          max_sentence_tokens: longer sentences are cut, where possible between words.
          min_sentences: documents with fewer (before cutting) are dropped.

        Raises:
          ValueError: if a length is out of range, or no document is left.
        """
        check_lengths(
            {
                "long_length": long_length,
                "max_sentence_tokens": max_sentence_tokens,
                "min_sentences": min_sentences,
            }
        )
        self._long_length = long_length
        self._max_sentence_tokens = max_sentence_tokens
        self._documents = kept_documents(cache, min_sentences)
        self._tokens = cache.tokens_per_document()[self._documents]
        self.num_windows = -(-int(self._tokens.sum()) // long_length)
        self.counts = Counts.of_text(
            cache,
            self._documents,
            max_sentence_tokens=max_sentence_tokens,
            windows=self.num_windows,
            long_length=long_length,
        )
        self._cached = functools.lru_cache(_EPOCHS_AT_HAND)(self._in_epoch)

    def in_epoch(self, seed: int, epoch: int, source: int = 0) -> Concatenated:
        """See `reader.Plan`: the order of the documents is drawn."""
        return self._cached(seed, epoch, source)

    def _in_epoch(self, seed: int, epoch: int, source: int) -> Concatenated:
        rng = masking.generator(seed, epoch, 0, stream=masking.DOCUMENTS, source=source)
        order = rng.permutation(len(self._documents))
        return Concatenated(
            documents=self._documents[order],
            ends=np.cumsum(self._tokens[order]),
            long_length=self._long_length,
            max_sentence_tokens=self._max_sentence_tokens,
        )


@dataclasses.dataclass(frozen=True)
class Concatenated:
    """The windows of one order of the documents.

    Attributes:
      documents: int64 `[documents]`, in this order.
      ends: int64 `[documents]`: tokens up to the end of each.
      long_length, max_sentence_tokens: see `Concatenation`.
    """

    documents: np.ndarray
    ends: np.ndarray
    long_length: int
    max_sentence_tokens: int

    def read(self, cache: TokenCache, index: int) -> PackedWindow:
        """Gathers the text of one window; a sentence is cut at its borders."""
        start = index * self.long_length
        stop = min(start + self.long_length, int(self.ends[-1]))
        # Documents whose tokens reach into [start, stop).
        first = np.searchsorted(self.ends, start, "right")
        last = np.searchsorted(self.ends, stop, "left")
        numbers = range(first, last + 1)
        return gather(cache, (self._piece(cache, x, start, stop) for x in numbers))

    def _piece(
        self, cache: TokenCache, number: int, start: int, stop: int
    ) -> tuple[int, np.ndarray]:
        """A document of `gather`, of which what is outside of a window is cut off."""
        document = int(self.documents[number])
        first, end = cache.document_offsets[document : document + 2]
        offsets = cache.sentence_offsets[first : end + 1]
        # From tokens of this order to those of the cache.
        shift = offsets[-1] - self.ends[number]
        offsets = cut_sentences(cache, offsets, self.max_sentence_tokens)
        # What is outside becomes empty sentences at the borders.
        return document, np.unique(np.clip(offsets, start + shift, stop + shift))
