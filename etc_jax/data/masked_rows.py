"""Batches of masked tokens in one sequence a row, of bytes or of a token cache.

Keys of a batch, for b rows of n tokens and p places to be foretold:

    tokens       int32   [b, n]  masks applied
    example_ids  int32   [b, n]  1, 2, ... by document in the row; 0: padding
    positions    int32   [b, p]  ascending
    targets      int32   [b, p]  what stood there
    weights      float32 [b, p]  1 real, 0 unused
    overflow     int32   [b]     tokens chosen that had no room, left as they are

A byte is its own id, and its mask the first id beyond bytes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from etc_jax.data import masking
from etc_jax.data.byte_stream import BYTES
from etc_jax.data.epochs import BatchRows, check_draws, positions
from etc_jax.data.pretraining import MixtureReader, PretrainingReader

# The mask of bytes.
BYTE_MASK = BYTES

Batch = dict[str, np.ndarray]


class Windows(Protocol):
    """Bytes without masks, such as `byte_stream.ByteReader` or `ByteEvaluation`."""

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """`targets`, bytes, and `weights` `[b, n]`, 1 for those that count.

        What stands before the ones that count is text too, what stands behind them
        padding.
        """


class MaskedBytes:
    """Masks windows of bytes, each byte on its own.

    The masks of position `step * batch_size + row` are drawn by (seed, position) alone.
    """

    def __init__(
        self,
        windows: Windows,
        *,
        batch_size: int,
        seed: int,
        capacity: int,
        shares: masking.MaskingShares | None = None,
    ):
        """See the class.

        Args:
          windows: of batches of `batch_size` rows; only bytes that count are masked.
          batch_size: rows of a whole batch, over all processes.
          seed: of the masks.
          capacity: p.
          shares: how much is masked; None: as in BERT.

        Raises:
          ValueError: if a number is out of range.
        """
        check_draws(batch_size, seed)
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}, expected 1 or more")
        self._windows, self._batch_size = windows, batch_size
        self._seed, self._capacity = seed, capacity
        self._shares = shares or masking.MaskingShares()

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """The batch of one step, whatever was read before.

        Args:
          step: 0, 1, ....
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        plain = self._windows.batch_at(step, rows)
        text, counted = plain["targets"], plain["weights"] > 0
        batch = _empty(text, self._capacity)
        # True from the first byte to the last one that counts.
        shown = np.flip(np.logical_or.accumulate(np.flip(counted, 1), 1), 1)
        batch["example_ids"][:] = shown
        for row, position in enumerate(positions(step, self._batch_size, rows)):
            # Index 0 of each epoch is where `ByteReader` draws its first window.
            rng = masking.generator(self._seed, 0, position + 1)
            self._mask(batch, row, text[row], np.flatnonzero(counted[row]), rng)
        return batch

    def _mask(self, batch: Batch, row: int, text, candidates, rng) -> None:
        words = np.ones(len(candidates), bool)
        chosen, overflow = masking.select_words(
            rng, words, self._shares.mlm, self._capacity
        )
        places = candidates[chosen]
        targets, count = text[places], len(places)
        batch["tokens"][row, places] = masking.corrupt(
            rng, targets, self._shares, mask_id=BYTE_MASK, random_ids=(0, BYTES)
        )
        batch["positions"][row, :count] = places
        batch["targets"][row, :count] = targets
        batch["weights"][row, :count] = 1.0
        batch["overflow"][row] = overflow


def _empty(tokens: np.ndarray, capacity: int) -> Batch:
    """Nothing masked yet."""
    shape = (len(tokens), capacity)
    return {
        "tokens": tokens.copy(),
        "example_ids": np.zeros_like(tokens),
        "positions": np.zeros(shape, np.int32),
        "targets": np.zeros(shape, np.int32),
        "weights": np.zeros(shape, np.float32),
        "overflow": np.zeros(len(tokens), np.int32),
    }


class MaskedTokens:
    """What a reader of pre-training gives, without what ETC alone has: whole words are
    masked, and documents share a row without seeing each other.

    Args:
      reader: of batches without CPC.
    """

    def __init__(self, reader: PretrainingReader | MixtureReader):
        self._reader = reader

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """The batch of one step; see `PretrainingReader.batch_at`."""
        whole = self._reader.batch_at(step, rows)
        names = ("positions", "targets", "weights", "overflow")
        return {
            "tokens": whole["long_tokens"],
            "example_ids": whole["structure"].long_example_ids,
            **{name: whole[f"mlm_{name}"] for name in names},
        }
