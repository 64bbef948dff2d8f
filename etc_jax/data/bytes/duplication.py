"""The duplication task: 0 w 0 w, and the second w is to be predicted.

Kitaev et al. 2020, section 5.1: w is drawn anew for each row, so that nothing can be
learnt but to look where the same symbols stood before.
"""

from __future__ import annotations

import numpy as np

from etc_jax.data.bytes.stream import START, next_symbol_batch
from etc_jax.data.epochs import BatchRows, check_draws, positions
from etc_jax.data.pretraining import masking

SEPARATOR = START  # so that the tokens, shifted by one, begin with it
# Streams of draws that no row of the other shares.
_TRAINING, _EVALUATION = 0, 1


class DuplicationReader:
    """Batches of an endless row of sequences; keys and shapes as of `ByteReader`.

    `tokens` is the sequence shifted by one, after a separator; `weights` is 1 on the
    second w alone. (Papers and code differ in whether the second separator counts; its
    place says what it is, and no symbol shows it, so here it does not.)
    """

    def __init__(
        self,
        *,
        length: int,
        num_symbols: int,
        batch_size: int,
        seed: int,
        evaluation: bool = False,
    ):
        """See the class.

        Args:
          length: of 0w0w; w has length / 2 - 1 symbols.
          num_symbols: symbols are 1..num_symbols - 1.
          batch_size: rows of a whole batch, over all processes.
          seed: of all draws.
          evaluation: other rows than those of training.

        Raises:
          ValueError: if the length is odd or below 4, or there is no symbol.
        """
        check_draws(batch_size, seed)
        if length < 4 or length % 2:
            raise ValueError(
                f"data.input_length is {length}; 0w0w needs an even length of 4 or more"
            )
        if num_symbols < 3:
            raise ValueError(
                f"data.vocab_size is {num_symbols}; expected 3 or more: the separator "
                "0 and two symbols at least"
            )
        self._length, self._symbols = length, num_symbols
        self._batch_size, self._seed = batch_size, seed
        self._source = _EVALUATION if evaluation else _TRAINING

    def batch_at(self, step: int, rows: BatchRows = None) -> dict[str, np.ndarray]:
        """The batch of one step, `[b, n]` arrays, whatever was read before.

        Args:
          step: 0, 1, ....
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        row_positions, half = positions(step, self._batch_size, rows), self._length // 2
        targets = np.full((len(row_positions), self._length), SEPARATOR, np.int32)
        for row, position in enumerate(row_positions):
            rng = masking.generator(self._seed, 0, position, source=self._source)
            w = rng.integers(1, self._symbols, half - 1)
            targets[row, 1:half] = targets[row, half + 1 :] = w
        weights = np.zeros(targets.shape, np.float32)
        weights[:, half + 1 :] = 1.0
        return next_symbol_batch(targets, weights)
