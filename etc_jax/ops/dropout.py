"""Which elements dropout leaves out, by a hash of their places.

A hash is worked out where it is read, by far fewer operations than a generator takes,
and again in the backward pass, for which nothing is kept. It depends on the key and the
place alone: not on devices, the mesh or versions of XLA, as hardware generators do.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

Array = jax.Array


def dropped(x: Array, rng: Array, rate: float) -> Array:
    """`[..., n, e]` with some elements 0 and the others divided by 1 - rate.

    Args:
      x: of two axes or more.
      rng: key.
      rate: in [0, `ops.attention.parts.checks.DROPOUT_RATE_LIMIT`), exact to 1/65536.

    Returns:
      The shape and dtype of `x`.
    """
    return _dropped(rate, x, _seeds(rng, x.shape))


def factors(rng: Array, rate: float, shape: tuple[int, ...], dtype) -> Array:
    """0 or 1/(1 - rate) for each element of `[..., n, e]`, as in `dropped`."""
    return _factors(rate, _seeds(rng, shape), shape).astype(dtype)


def counted_factors(rate: float, seed: Array, row: Array, column: Array) -> Array:
    """0 or 1/(1 - rate) for each place.

    Args:
      rate: as in `dropped`.
      seed: uint32.
      row: int32, numbers of rows.
      column: int32, numbers of columns; all three broadcast.

    Returns:
      float32 of the shape that they broadcast to.
    """
    of_row = _mixed(of_later_rows(seed, row))
    bits = _mixed(of_row ^ (column.astype(jnp.uint32) * jnp.uint32(0x85EBCA6B)))
    least = round(rate * 2**16)
    # By the rate as rounded, so that the mean of the factors is 1.
    keep = 2**16 / (2**16 - least)
    # As int32, since Mosaic compares no unsigned numbers.
    high = (bits >> 16).astype(jnp.int32)
    return jnp.where(high >= least, jnp.float32(keep), 0.0)


def of_later_rows(seed: Array, count: Array) -> Array:
    """The uint32 seed by which row 0 draws what row `count` does by `seed`.

    Args:
      seed: uint32.
      count: int32; the two broadcast.

    Returns:
      uint32 of the shape that they broadcast to.
    """
    return count.astype(jnp.uint32) * jnp.uint32(0x9E3779B9) + seed


def _mixed(x: Array) -> Array:
    """uint32 -> uint32: each bit of the result depends on all (a finaliser by 3)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _seeds(rng: Array, shape: tuple[int, ...]) -> Array:
    """uint32 `[..., 1, 1]` for `[..., n, e]`."""
    return jax.random.bits(rng, (*shape[:-2], 1, 1), jnp.uint32)


def _factors(rate: float, seeds: Array, shape: tuple[int, ...]) -> Array:
    """float32 of a shape, of seeds that broadcast with it."""
    *lead, rows, columns = shape
    ones = (1,) * len(lead)
    row = jnp.arange(rows, dtype=jnp.int32).reshape(*ones, rows, 1)
    column = jnp.arange(columns, dtype=jnp.int32).reshape(*ones, 1, columns)
    return counted_factors(rate, seeds, row, column)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _dropped(rate: float, x: Array, seeds: Array) -> Array:
    # Rounded once: 1 / 0.9 in bfloat16 is 0.2 % too small.
    return (x * _factors(rate, seeds, x.shape)).astype(x.dtype)


def _dropped_forward(rate: float, x: Array, seeds: Array):
    return _dropped(rate, x, seeds), seeds


def _dropped_backward(rate: float, seeds: Array, gradient: Array):
    return _dropped(rate, gradient, seeds), None


_dropped.defvjp(_dropped_forward, _dropped_backward)
