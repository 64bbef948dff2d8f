"""Sizes of a TPU's registers, and operations on them that kernels share."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array

# A register has 8 sublanes of 128 lanes, each of 32 bits.
SUBLANES, LANES = 8, 128


def round_up(x: int, size: int) -> int:
    """The least multiple of `size` that is x or more."""
    return -(-x // size) * size


def iota(shape: tuple[int, ...], axis: int) -> Array:
    """int32 of the shape: the index along an axis."""
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis)


def product(a: Array, b: Array, contracted: tuple[int, int] = (1, 0)) -> Array:
    """Of two matrices over one axis of each, with sums in float32.

    Args:
      a: `[m, x]` or `[x, m]`.
      b: `[x, n]` or `[n, x]`, in the dtype of `a`.
      contracted: the axis x of each.

    Returns:
      float32 `[m, n]`.
    """
    wide = a.dtype == jnp.float32
    return jax.lax.dot_general(
        a,
        b,
        (((contracted[0],), (contracted[1],)), ((), ())),
        precision=jax.lax.Precision.HIGHEST if wide else jax.lax.Precision.DEFAULT,
        preferred_element_type=jnp.float32,
    )


def side_by_side(x: Array, ways: int) -> Array:
    """`[rows, lanes]` -> `[rows, ways * lanes]`: the same for each head of a group."""
    return x if ways == 1 else jnp.concatenate([x] * ways, axis=1)


def heads_apart(x: Array, ways: int) -> Array:
    """`[q, ways * d]` -> `[ways * q, ways * d]`: a head's features, zeros for others.

    A product over all features of the group is then one of each head alone, and takes
    no longer: a matrix unit multiplies 128 features at once in any case.
    """
    if ways == 1:
        return x
    head = iota(x.shape, 1) // (x.shape[1] // ways)
    return jnp.concatenate([jnp.where(head == w, x, 0) for w in range(ways)])


def head_products(a: Array, b: Array, ways: int) -> Array:
    """Of each head: `[ways * d, x]` and `[x, ways * q]` -> float32 `[ways * d, q]`."""
    d, q = a.shape[0] // ways, b.shape[1] // ways
    return jnp.concatenate(
        [
            product(a[w * d : (w + 1) * d], b[:, w * q : (w + 1) * q])
            for w in range(ways)
        ]
    )


def group_of_heads(d: int) -> tuple[int, int]:
    """(heads of a group, its features) of heads of d: these fill a register's lanes."""
    ways = 2 if d <= LANES // 2 else 1
    return ways, LANES if ways > 1 else round_up(d, LANES)


def features_of(x: Array, ways: int, width: int) -> Array:
    """`[..., h, d]` -> `[..., F]`, of whole groups of heads of so many features."""
    h, d = x.shape[-2:]
    more = (0, -h % ways), (0, width // ways - d)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [*more])
    return x.reshape(*x.shape[:-2], -1)


def heads_of(x: Array, h: int, d: int, ways: int) -> Array:
    """The inverse: `[..., F]` -> `[..., h, d]`."""
    return x.reshape(*x.shape[:-1], round_up(h, ways), -1)[..., :h, :d]
