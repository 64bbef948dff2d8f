"""Which data set the example at a position of a mixture comes from.

Positions 0, 1, ... are cut into blocks. How often each source has come up by the end
of a block is the largest-remainder apportionment of all positions so far, so the
error is carried from block to block and no source is ever a whole draw away from its
share; inside a block the order is random, from (seed, block). So an example depends on
its position alone: nothing is kept, any position can be asked for, and any number
of hosts that share the positions see one and the same mixture.

    mixture = Mixture([0.7, 0.3], seed=0)
    source, index = mixture.locate(position)

`index` counts the draws of the source without a gap: 0, 1, 2, ... of its endless
stream of epochs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from etc_jax.data.pretraining import masking

MIN_BLOCK_SIZE = 1000
# A rarer source would need blocks that take long to permute.
SMALLEST_SHARE = Fraction(1, 1_000_000)
# One of the streams of `masking.generator`, far from the small numbers used there.
_STREAM = int.from_bytes(b"mixture")


class SourceIndex(NamedTuple):
    """Where an example comes from: which source, and which example of its stream."""

    source: int
    index: int


class MixtureBlock(NamedTuple):
    """What positions of one block hold: int64 `[block_size]` each, in order."""

    sources: np.ndarray
    indices: np.ndarray


class Mixture:
    """Draws from several endless streams in fixed proportions."""

    def __init__(self, weights: Sequence[float], *, seed: int):
        """See the module.

        Args:
          weights: of each source; only their ratios count.
          seed: of the order inside blocks, 0 .. 2**64 - 1.

        Raises:
          ValueError: if there is no source, a weight is not a positive number, or one
            is less than a millionth of all.
        """
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must be in 0 .. 2**64 - 1, got {seed}")
        # Exact arithmetic: rounding errors would let counts go back at far positions.
        self._shares = _shares(weights)
        self._seed = seed
        # With at least one draw of every source in a block, the counts of the largest
        # remainders never go back (with less they may: the Alabama paradox).
        self._block_size = max(MIN_BLOCK_SIZE, math.ceil(1 / min(self._shares)))
        self._cached_block = functools.lru_cache(maxsize=4)(self._make_block)

    @property
    def rates(self) -> tuple[float, ...]:
        """Share of each source; the sum is 1."""
        return tuple(map(float, self._shares))

    @property
    def block_size(self) -> int:
        """Positions of a block."""
        return self._block_size

    def locate(self, position: int) -> SourceIndex:
        """Source and index at one position, 0, 1, ...

        Raises:
          IndexError: if the position is negative.
        """
        number, offset = divmod(int(position), self._block_size)
        block = self.block(number)
        return SourceIndex(int(block.sources[offset]), int(block.indices[offset]))

    def block(self, number: int) -> MixtureBlock:
        """All of block 0, 1, ...: positions `number * block_size` and on.

        Raises:
          IndexError: if the number is negative.
        """
        if number < 0:
            raise IndexError(f"no block {number} of a mixture; positions begin at 0")
        return self._cached_block(number)

    def _make_block(self, number: int) -> MixtureBlock:
        before = self._counts(number)
        # The difference of two totals, so that rounding never adds up.
        counts = self._counts(number + 1) - before
        in_order = np.repeat(np.arange(len(counts)), counts)
        rng = masking.generator(self._seed, 0, number, stream=_STREAM)
        sources = rng.permutation(in_order)
        indices = np.empty_like(sources)
        for source, count in enumerate(counts.tolist()):
            # Draws of a source are numbered in the order of positions.
            indices[sources == source] = before[source] + np.arange(count)
        return MixtureBlock(sources, indices)

    def _counts(self, blocks: int) -> np.ndarray:
        """Draws of each source in the first `blocks` blocks: int64 `[sources]`."""
        total = blocks * self._block_size
        quotas = [share * total for share in self._shares]
        counts = [math.floor(quota) for quota in quotas]
        remainders = [q - c for q, c in zip(quotas, counts, strict=True)]
        largest_first = sorted(range(len(quotas)), key=lambda i: -remainders[i])
        # What rounding down has left goes to the largest remainders.
        for source in largest_first[: total - sum(counts)]:
            counts[source] += 1
        return np.array(counts, np.int64)


def _shares(weights: Sequence[float]) -> list[Fraction]:
    if not len(weights):
        raise ValueError("a mixture needs at least one source, got no weights")
    for number, weight in enumerate(weights):
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(
                f"weight {number} of {list(weights)} is not a positive number; leave "
                "out the sources that shall not be drawn"
            )
    exact = [Fraction(float(weight)) for weight in weights]
    shares = [weight / sum(exact) for weight in exact]
    if min(shares) < SMALLEST_SHARE:
        rarest = shares.index(min(shares))
        raise ValueError(
            f"weight {rarest} of {list(weights)} is {float(min(shares)):.2g} of all, "
            f"expected at least {float(SMALLEST_SHARE):g}; raise it or leave it out"
        )
    return shares
