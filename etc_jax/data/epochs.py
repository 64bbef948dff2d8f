"""Which item stands at each position of endless, shuffled epochs."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.data.pretraining import masking

# Rows of a batch that one process builds; None: all.
BatchRows = slice | Sequence[int] | np.ndarray | None


class Permutations:
    """Epochs over some items, each a new permutation that (seed, epoch) decides."""

    def __init__(self, size: int, *, seed: int, source: int = 0):
        """Takes the items.

        Args:
          size: how many there are.
          seed: 0 .. 2**64 - 1.
          source: which of several sources this is; each has its own permutations.
        """
        self.size = size
        self._seed, self._source = seed, source
        # Steps walk through epochs, so two permutations serve every batch.
        self._drawn = functools.lru_cache(2)(self._draw)

    def locate(self, position: int) -> tuple[int, int]:
        """(epoch, item) at a position of the endless row of epochs."""
        epoch, offset = divmod(position, self.size)
        return epoch, int(self(epoch)[offset])

    def __call__(self, epoch: int) -> np.ndarray:
        """The items of an epoch in order: int `[size]`."""
        return self._drawn(epoch)

    def _draw(self, epoch: int) -> np.ndarray:
        rng = masking.generator(
            self._seed, epoch, 0, stream=masking.PERMUTATION, source=self._source
        )
        return rng.permutation(self.size)


class EpochReader(abc.ABC):
    """Builds the batch of any step from items that are numbered.

    In training, the batch of step s holds the positions `s * batch_size` and on of the
    endless row of epochs, each a new permutation of all items. In evaluation there is
    one epoch, in order, and the rows that are left in the last batch are padding.

    Attributes:
      num_examples: items of an epoch.
    """

    def __init__(
        self,
        num_examples: int,
        *,
        batch_size: int,
        seed: int = 0,
        evaluation: bool = False,
    ):
        """Takes the items.

        Args:
          num_examples: how many there are.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations.
          evaluation: one fixed epoch instead of endless ones.

        Raises:
          ValueError: if a number is out of range.
        """
        check_draws(batch_size, seed)
        self.num_examples = num_examples
        self._batch_size, self._evaluation = batch_size, evaluation
        self._permutation = Permutations(num_examples, seed=seed)

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every item was seen: the last one may begin a new epoch."""
        return -(-self.num_examples // self._batch_size)

    def batch_at(self, step: int, rows: BatchRows = None) -> dict[str, Any]:
        """The batch of one step, `[b, ...]`, whatever was read before.

        Args:
          step: 0, 1, ...; in evaluation below `steps_per_epoch`.
          rows: build only these rows, such as int `[b]` (those of one process); None:
            all of the batch.

        Raises:
          IndexError: if the step or a row is out of range.
        """
        if self._evaluation:
            check_step(step, self.steps_per_epoch)
        row_positions = positions(step, self._batch_size, rows)
        if self._evaluation:
            return self._batch(
                [x if x < self.num_examples else None for x in row_positions]
            )
        return self._batch([self._permutation.locate(x)[1] for x in row_positions])

    @abc.abstractmethod
    def _batch(self, items: Sequence[int | None]) -> dict[str, Any]:
        """A batch of the item of each row; None: padding."""


def positions(step: int, batch_size: int, rows: BatchRows = None) -> list[int]:
    """The positions of the data that the batch of a step holds, one a row.

    Args:
      step: 0, 1, ...
      batch_size: rows of a whole batch.
      rows: which rows, such as int `[b]`; None: all of them.

    Raises:
      IndexError: if the step is negative, or a row is out of range.
    """
    if step < 0:
        raise IndexError(f"no batch for step {step}; expected 0 or more")
    # The position of a row does not depend on which rows are asked for.
    picked = np.arange(batch_size)
    if rows is not None:
        picked = picked[rows if isinstance(rows, slice) else np.array(rows, int)]
    return [step * batch_size + row for row in picked.tolist()]


def check_step(step: int, steps: int) -> None:
    """Raises IndexError unless there is such a step of so many."""
    if not 0 <= step < steps:
        raise IndexError(f"no batch for step {step}; expected 0..{steps - 1}")


def check_draws(batch_size: int, seed: int) -> None:
    """Raises ValueError unless a reader can work with these."""
    at_least(1).check(batch_size=batch_size)
    at_least(0).check(seed=seed)
