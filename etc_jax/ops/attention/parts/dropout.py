"""Dropout of attention probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops import dropout
from etc_jax.ops.attention.parts.checks import check_dropout_rate

Array = jax.Array


class Dropout(NamedTuple):
    """Of attention probabilities.

    Attributes:
      rate: static.
      rng: key; None: no dropout.
    """

    rate: float
    rng: Array | None

    @classmethod
    def make(cls, rate: float, rng: Array | None) -> Dropout:
        """Of a scalar key, or None: without a key the rate is 0, and so conversely.

        Raises:
          ValueError: see `check_dropout_rate`.
        """
        check_dropout_rate(rate)
        on = rate and rng is not None
        return cls(rate, rng) if on else cls(0.0, None)

    def stream(self, number: int) -> Dropout:
        """Draws of another kind."""
        if self.rng is None:
            return self
        return self._replace(rng=jax.random.fold_in(self.rng, number))

    def split(self) -> tuple[Dropout, Dropout]:
        """Two that draw apart."""
        if self.rng is None:
            return self, self
        return tuple(self._replace(rng=key) for key in jax.random.split(self.rng))

    def draws(self, first_block) -> Draws | None:
        """For the blocked forms; `first_block` as in `Draws`."""
        if self.rng is None:
            return None
        return Draws(self.rng, jnp.asarray(first_block, jnp.int32))

    def dense(self) -> Callable[[Array], Array] | None:
        """A function of probabilities `[b, h, q, k]` for the oracle; None: none."""
        if self.rng is None:
            return None
        return lambda p: p * dropout.factors(self.rng, self.rate, p.shape, p.dtype)


class Draws(NamedTuple):
    """What dropout draws from.

    Every block of long tokens has a key of its own, by its place in the sequence, so
    that neither chunks nor devices change what is drawn.

    Attributes:
      rng: key.
      first_block: int32 scalar, number of the first block of these long tokens.
    """

    rng: jax.Array
    first_block: jax.Array

    def stream(self, number: int) -> Draws:
        """Draws of another kind of block."""
        return self._replace(rng=jax.random.fold_in(self.rng, number))

    def factors(self, rate: float, start, shape, axis: int, dtype) -> jax.Array:
        """Dropout factors of blocks from `start`, which lie along `axis` of `shape`."""
        count = shape[axis]
        # What one block draws: [b, h, keys, q] of [b, h, C, keys, q].
        rest = (*shape[:axis], *shape[axis + 1 :])
        # [C], counted through the whole sequence.
        numbers = self.first_block + start + jnp.arange(count, dtype=jnp.int32)

        def one(number):
            rng = jax.random.fold_in(self.rng, number)
            return dropout.factors(rng, rate, rest, dtype)

        return jax.vmap(one, out_axes=axis)(numbers)
