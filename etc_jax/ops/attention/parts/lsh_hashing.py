"""Angular locality-sensitive hashing: vectors to buckets (Kitaev et al. 2020).

A vector is rotated at random; its bucket is the axis, with its sign, that it lies
nearest to (section 2). With two factors a bucket is a pair of such axes: the number of
buckets is the product, the cost of hashing the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

Buckets = int | Sequence[int]


def factors_of(num_buckets: Buckets) -> tuple[int, ...]:
    """The factors of a number of buckets, checked.

    Raises:
      ValueError: if a factor is odd or below 2: an axis has two ends.
    """
    factors = (num_buckets,) if isinstance(num_buckets, int) else tuple(num_buckets)
    if not 1 <= len(factors) <= 2 or any(x < 2 or x % 2 for x in factors):
        raise ValueError(
            f"num_buckets is {num_buckets}; expected an even number of at least 2, or "
            "two of them, such as (16, 32), which are multiplied"
        )
    return factors


def buckets_for(
    length: int, chunk_length: int, max_length: int | None = None
) -> tuple[int, ...]:
    """About two buckets for each chunk: a power of two, in two factors if it is large.

    The rule of transformers' Reformer for num_buckets None, worked out for each length
    anew. A sequence of one chunk is not hashed, and one of fewer than two whole chunks
    has two buckets.

    Args:
      length: of the sequence.
      chunk_length: of a chunk of sorted tokens.
      max_length: that the model has positions for; default: `length`.

    Returns:
      Factors of the number of buckets.
    """
    bits = max(1, (2 * (length // chunk_length)).bit_length() - 1)
    chunks = (max_length or length) // chunk_length
    if 2**bits > 2 * max(math.isqrt(chunks), chunk_length):
        return (2 ** (bits // 2), 2 ** (bits - bits // 2))
    return (2**bits,)


def draw_rotations(
    rng: jax.Array,
    num_heads: int,
    head_dim: int,
    num_hashes: int,
    num_buckets: Buckets,
    dtype=jnp.float32,
) -> jax.Array:
    """Random directions for `hash_vectors`.

    Returns:
      Normal `[num_heads, head_dim, num_hashes, sum of factors / 2]`.

    Raises:
      ValueError: if there is no hash, or the buckets do not fit.
    """
    if num_hashes < 1:
        raise ValueError(f"num_hashes is {num_hashes}, expected at least 1")
    # One direction for the two ends of an axis.
    half = sum(factors_of(num_buckets)) // 2
    return jax.random.normal(rng, (num_heads, head_dim, num_hashes, half), dtype)


def hash_vectors(
    vectors: jax.Array, rotations: jax.Array, num_buckets: Buckets
) -> jax.Array:
    """The bucket of each vector in each round.

    Args:
      vectors: `[b, n, h, d]`; their lengths do not matter.
      rotations: of `draw_rotations`, for the same buckets.
      num_buckets: the number, or its factors; the first one counts fastest.

    Returns:
      int32 `[b, h, num_hashes, n]` in 0..product of factors - 1. Nothing flows back.

    Raises:
      ValueError: if the rotations are not for such vectors and buckets.
    """
    factors = factors_of(num_buckets)
    heads, size = vectors.shape[2:]
    want = (heads, size, rotations.shape[2], sum(factors) // 2)
    if rotations.shape != want:
        raise ValueError(
            f"rotations have shape {rotations.shape}, expected {want} for vectors "
            f"{vectors.shape} and num_buckets {num_buckets}"
        )
    vectors = jax.lax.stop_gradient(vectors)
    rotated = jnp.einsum(
        "bnhd,hdrk->bhrnk",
        vectors,
        rotations.astype(vectors.dtype),
        # The nearest axis of a vector that lies between two hangs on the last digits.
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.promote_types(vectors.dtype, jnp.float32),
    )
    buckets, start, step = jnp.zeros(rotated.shape[:-1], jnp.int32), 0, 1
    for factor in factors:
        # [b, h, num_hashes, n, factor / 2]; the first factor is the lowest digit.
        part = rotated[..., start : start + factor // 2]
        buckets += step * _nearest_end(part)
        start, step = start + factor // 2, step * factor
    return buckets


def _nearest_end(x: jax.Array) -> jax.Array:
    """argmax over [x, -x] of the last axis, without the array twice as long."""
    half = x.shape[-1]
    top, low = x.max(-1), x.min(-1)
    is_low = -low > top
    # The first place of the extreme; argmax carries values and places along, which
    # takes XLA several times as long on CPU.
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    is_extreme = x == jnp.where(is_low, low, top)[..., None]
    nearest = jnp.where(is_extreme, index, half).min(-1)
    # The other ends count on after the first ones, as in [x, -x].
    return jnp.where(is_low, half + nearest, nearest)
