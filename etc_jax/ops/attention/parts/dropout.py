"""Dropout of attention probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

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
        return lambda p: p * dropout_factors(self.rng, self.rate, p.shape, p.dtype)


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
            return dropout_factors(rng, rate, rest, dtype)

        return jax.vmap(one, out_axes=axis)(numbers)


def dropout_factors(rng, rate: float, shape, dtype) -> jax.Array:
    """0 or 1/(1 - rate) for each pair.

    Sixteen random bits a pair, two pairs a word: half the cost of a float each, and the
    rate is exact to 1/65536. The words are of one half of the keys and of the other: a
    last axis of the two would be padded from 2 to 128 places on a TPU.

    Args:
      rng: key.
      rate: below `checks.DROPOUT_RATE_LIMIT`.
      shape: `[..., keys, q]`.
      dtype: of the factors.
    """
    dropped = round(rate * 2**16)
    *lead, keys, q = shape
    # [..., ceil(keys / 2), q] words -> [..., keys, q] numbers below 2**16.
    words = jax.random.bits(rng, (*lead, -(-keys // 2), q), jnp.uint32)
    bits = jnp.concatenate([words & 0xFFFF, words >> 16], axis=-2)[..., :keys, :]
    # By the rate as rounded, so that the mean of the factors is 1.
    keep = 2**16 / (2**16 - dropped)
    return jnp.where(bits >= dropped, jnp.asarray(keep, dtype), 0)


def counted_factors(rate: float, seed: Array, row: Array, key: Array) -> Array:
    """0 or 1/(1 - rate) for each pair, by a hash of its numbers: what kernels draw.

    Args:
      rate: below `checks.DROPOUT_RATE_LIMIT`.
      seed: uint32 scalar.
      row: int32, numbers of queries.
      key: int32, numbers of keys; broadcasts with `row`.

    Returns:
      float32 of the shape that both broadcast to.
    """
    of_row = _mixed(row.astype(jnp.uint32) * jnp.uint32(0x9E3779B9) + seed)
    bits = _mixed(of_row ^ (key.astype(jnp.uint32) * jnp.uint32(0x85EBCA6B)))
    dropped = round(rate * 2**16)
    keep = 2**16 / (2**16 - dropped)
    # As int32, since Mosaic compares no unsigned numbers.
    high = (bits >> 16).astype(jnp.int32)
    return jnp.where(high >= dropped, jnp.float32(keep), 0.0)


def _mixed(x: Array) -> Array:
    """uint32 -> uint32: each bit of the result depends on all (a finaliser by 3)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
