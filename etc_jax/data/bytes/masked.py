"""Batches of masked bytes; see `packed_text` for the keys.

A byte is its own id, and its mask the first id beyond bytes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.bytes.stream import BYTES
from etc_jax.data.epochs import BatchRows, check_draws, positions
from etc_jax.data.pretraining import masking
from etc_jax.data.text.packed import MASKED, mask_tokens

# The mask of bytes.
BYTE_MASK = BYTES

Batch = dict[str, np.ndarray]


class Windows(Protocol):
    """Bytes without masks, such as `byte_stream.ByteReader` or `ByteEvaluation`."""

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """`targets`, bytes, and `target_weights` `[b, n]`, 1 for those that count.

        What stands before the ones that count is text too, what stands after them
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
        at_least(1).check(capacity=capacity)
        self._windows, self._batch_size = windows, batch_size
        self._seed, self._capacity = seed, capacity
        self._shares = shares or masking.MaskingShares()

    def batch_at(self, step: int, rows: BatchRows = None) -> Batch:
        """The batch of one step, `[b, n]` arrays, whatever was read before.

        Args:
          step: 0, 1, ....
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        plain = self._windows.batch_at(step, rows)
        text, counted = plain["targets"], plain["target_weights"] > 0
        lengths = {"input": text.shape[1], "mlm": self._capacity}
        batch = MASKED.empty(len(text), lengths)
        batch["tokens"][:] = text
        # True from the first byte to the last one that counts.
        shown = np.flip(np.logical_or.accumulate(np.flip(counted, 1), 1), 1)
        batch["example_ids"][:] = shown
        for row, position in enumerate(positions(step, self._batch_size, rows)):
            # Index 0 of each epoch is where `ByteReader` draws its first window.
            rng = masking.generator(self._seed, 0, position + 1)
            candidates = np.flatnonzero(counted[row])
            mask_tokens(
                batch,
                row,
                "tokens",
                candidates,
                np.ones(len(candidates), bool),
                rng,
                shares=self._shares,
                mask_id=BYTE_MASK,
                random_ids=(0, BYTES),
            )
        return batch
