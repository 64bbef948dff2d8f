"""LSH attention and local attention over chunks (Kitaev et al. 2020, sections 2 and 4).

    rotations = draw_rotations(rng, heads, head_dim, num_hashes=2, num_buckets=32)
    buckets = hash_vectors(query_key, rotations, 32)
    output = attend(query_key, value, buckets, num_buckets=32, look=ChunkNeighbors(64))

Queries and keys are one: a token's key is its query with length 1. Tokens are sorted by
bucket and cut into chunks; a token sees its chunk and those beside it, in each round of
hashing, and one softmax goes over all of that. `local` does the same in the order of
the sequence, with keys of their own.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from etc_jax.base.rules import at_least
from etc_jax.ops import blocking
from etc_jax.ops.attention import dense
from etc_jax.ops.attention.parts import chunk_dense
from etc_jax.ops.attention.parts.checks import (
    check_implementation,
    check_one_length,
    check_rows,
)
from etc_jax.ops.attention.parts.chunk_rows import ChunkOptions, Order, chunk_rows
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.sizes import even_chunk

# A key that a query meets in several rounds counts so often (trax from 2020-04 on,
# transformers), or once (the paper's own code).
DUPLICATES = ("count", "once")

# What becomes of a token that sees only itself, such as the first of a causal sequence:
# its value; or, as transformers' Reformer has it in float32, its value times a number
# near 1 (by up to 1.2 %), as its logit of -1e5 leaves few digits. No more than this
# differs, but a model that was trained there has seen it.
ROUNDINGS = ("exact", "transformers")


@dataclasses.dataclass(frozen=True)
class ChunkNeighbors:
    """Who is near: chunks of so many tokens, and how many of them a query looks at.

    Attributes:
      chunk_length: tokens of a chunk.
      before: chunks before its own.
      after: chunks after it.

    Raises:
      ValueError: if there is no chunk of that length, or no such number of them.
    """

    chunk_length: int
    before: int = 1
    after: int = 0

    def __post_init__(self):
        if self.chunk_length < 1 or min(self.before, self.after) < 0:
            raise ValueError(
                f"{self}: expected chunk_length of at least 1, before and after of at "
                "least 0"
            )

    def padded(self, length: int) -> int:
        """`length`, or the next whole number of chunks if it is more than one."""
        if length <= self.chunk_length:
            return length
        return -(-length // self.chunk_length) * self.chunk_length


def check_choices(duplicates: str, rounding: str) -> None:
    """Raises ValueError for a name that is not known."""
    for name, x, choices in (
        ("duplicates", duplicates, DUPLICATES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if x not in choices:
            raise ValueError(f"{name} {x!r} is not one of {choices}")


def unit_keys(query_key: jax.Array) -> jax.Array:
    """`[..., d]` -> the same of length 1: keys of shared queries and keys.

    Scores are then cosines times the query's length. As in trax and transformers,
    with 1e-6 beside the mean square.
    """
    # Squares are summed in float32 whatever the rows are.
    x = query_key.astype(jnp.promote_types(query_key.dtype, jnp.float32))
    mean = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    # x / sqrt(mean) / sqrt(d) = x / |x|: [b, n, h, d].
    x = x * jax.lax.rsqrt(mean + 1e-6) / math.sqrt(x.shape[-1])
    return x.astype(query_key.dtype)


def attend(
    query_key: jax.Array,
    value: jax.Array,
    buckets: jax.Array | None,
    *,
    num_buckets: int,
    look: ChunkNeighbors,
    causal: bool = False,
    duplicates: str = "count",
    rounding: str = "exact",
    example_ids: jax.Array | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: jax.Array | None = None,
    chunks_at_once: int | None = None,
    shards: int = 1,
) -> jax.Array:
    """LSH attention with shared queries and keys.

    A token sees itself only where it sees nothing else. Rows that see nothing, which
    only padding does, are exactly zero. A sequence of one chunk is attended whole,
    whatever its buckets.

    Args:
      query_key: `[b, n, h, d]`, not normalised.
      value: `[b, n, h, d]`.
      buckets: int `[b, h, rounds, n]` in 0..num_buckets - 1, of `hash_vectors`; None if
        n is at most `look.chunk_length`.
      num_buckets: how many there are.
      look: chunks of sorted tokens.
      causal: no key after the query.
      duplicates: of `DUPLICATES`.
      rounding: of `ROUNDINGS`; the oracle is always exact.
      example_ids: int `[b, n]`; 0 is padding, and packed examples do not see each
        other; None: one example.
      implementation: "xla" (linear in n), "dense" (quadratic, the oracle), "auto".
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      chunks_at_once: of a step; default by the size of their logits on one device.
      shards: devices that batch and heads are split over.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_choices(duplicates, rounding)
    b, n, h, _ = query_key.shape
    whole = n <= look.chunk_length
    if not whole:
        _check_buckets(buckets, (b, h, n), num_buckets, look)
    return _attend(
        query_key,
        unit_keys(query_key),
        value,
        example_ids,
        look,
        buckets=None if whole else buckets,
        num_buckets=num_buckets,
        # 1 / sqrt(d) is in the unit keys.
        scale=1.0,
        causal=causal,
        mask_self=True,
        count_once=duplicates == "once" and not whole,
        rounded=rounding == "transformers",
        implementation=implementation,
        dropout=(dropout_rate, dropout_rng),
        chunks_at_once=chunks_at_once,
        shards=shards,
    )


def _check_buckets(buckets, sizes, num_buckets: int, look: ChunkNeighbors) -> None:
    b, h, n = sizes
    if buckets is None or buckets.ndim != 4:
        got = None if buckets is None else buckets.shape
        raise ValueError(f"buckets are {got}, expected shape {(b, h, 'rounds', n)}")
    if buckets.shape[:2] != (b, h) or buckets.shape[3] != n:
        raise ValueError(
            f"buckets have shape {buckets.shape}, expected {(b, h, 'rounds', n)}"
        )
    # One bucket more for padding: `sort_by_bucket` sorts numbers below this.
    if (num_buckets + 1) * look.padded(n) >= 2**31:
        raise ValueError(
            f"num_buckets {num_buckets} and length {n} are too large to be sorted "
            "by 32-bit numbers; take fewer buckets"
        )


def local(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    look: ChunkNeighbors,
    causal: bool = False,
    example_ids: jax.Array | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: jax.Array | None = None,
    chunks_at_once: int | None = None,
    shards: int = 1,
) -> jax.Array:
    """Attention over the chunks around one's own, in the order of the sequence.

    Chunks lie in a circle, as in transformers' Reformer: without `causal`, the first
    ones see the last ones. Otherwise as `attend`.

    Args:
      query: `[b, n, h, d]`.
      key: `[b, n, h, d]`.
      value: `[b, n, h, d]`.
      look: chunks of the sequence.
      causal: no key after the query.
      example_ids: as for `attend`.
      scale: of the products; None: 1 / sqrt(d).
      implementation: as for `attend`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      chunks_at_once: of a step; default by the size of their logits on one device.
      shards: devices that batch and heads are split over.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    return _attend(
        query,
        key,
        value,
        example_ids,
        look,
        buckets=None,
        num_buckets=0,
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        causal=causal,
        mask_self=False,
        count_once=False,
        rounded=False,
        implementation=implementation,
        dropout=(dropout_rate, dropout_rng),
        chunks_at_once=chunks_at_once,
        shards=shards,
    )


def sort_by_bucket(
    buckets: jax.Array, example_ids: jax.Array, num_buckets: int
) -> Order:
    """Each round's tokens by bucket, and by position in a bucket; padding last.

    Args:
      buckets: int `[b, h, rounds, n]` in 0..num_buckets - 1.
      example_ids: int `[b, n]`, 0 for padding.
      num_buckets: how many there are.
    """
    n = buckets.shape[-1]
    buckets = buckets.astype(jnp.int32)
    # [b, h, rounds, n]; padding has a bucket after all others.
    buckets = jnp.where(example_ids[:, None, None] > 0, buckets, num_buckets)
    position = jax.lax.broadcasted_iota(jnp.int32, buckets.shape, 3)
    # Numbers that differ, so that one sort of one array is stable.
    order = jax.lax.sort(buckets * n + position) % n
    # The remainder is the token: order and inverse are [b, h, rounds, n].
    return Order(example_ids, order, inverse(order))


def inverse(order: jax.Array) -> jax.Array:
    """int32 `[..., n]`, the rank of each token: the inverse of permutations of n."""
    position = jax.lax.broadcasted_iota(jnp.int32, order.shape, order.ndim - 1)

    def by_scatter(order, position):
        def one(order, position):
            empty = jnp.zeros_like(order)
            # [n]: a permutation, so each index is there once.
            return empty.at[order].set(
                position, unique_indices=True, mode="promise_in_bounds"
            )

        # Axes that a scatter is mapped over stay split over devices. With indices into
        # them, as `put_along_axis` has, each device gathers the whole batch.
        for _ in order.shape[:-1]:
            one = jax.vmap(one)
        return one(order, position)

    def by_sort(order, position):
        return jax.lax.sort((order, position), num_keys=1)[1]

    # TPUs scatter one number after the other.
    # For v5e the compiler estimates a twelfth of the scatter's cycles for a sort.
    return jax.lax.platform_dependent(order, position, tpu=by_sort, default=by_scatter)


def _attend(
    query,
    key,
    value,
    example_ids,
    look: ChunkNeighbors,
    *,
    buckets,
    num_buckets,
    scale,
    causal,
    mask_self,
    count_once,
    rounded,
    implementation,
    dropout,
    chunks_at_once,
    shards,
):
    check_implementation(implementation)
    check_rows(query, key, value, example_ids)
    check_one_length(query, key)
    b, n, h, _ = query.shape
    if not n:
        return query
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    dropout = Dropout.make(*dropout)
    # Padding to whole chunks has id 0: it is sorted last, and nothing sees it.
    extra = look.padded(n) - n
    example_ids = blocking.pad_axis(example_ids.astype(jnp.int32), 1, 0, extra)
    if buckets is not None:
        buckets = blocking.pad_axis(buckets, 3, 0, extra)
        order = sort_by_bucket(buckets, example_ids, num_buckets)
    else:
        order = Order(example_ids)
    # One chunk is all that there is.
    if n <= look.chunk_length:
        look = ChunkNeighbors(n, 0, 0)
    rows = [blocking.pad_axis(x, 1, 0, extra) for x in (query, key, value)]
    masks = {"causal": causal, "mask_self": mask_self}
    if implementation == "dense":
        # How often a query meets a key: int [b or 1, h or 1, n + extra, n + extra].
        met = _met(order, look)
        if count_once:
            met = jnp.minimum(met, 1)
        pairs = chunk_dense.mask_and_bias(met, example_ids, query.dtype, **masks)
        out = dense.attend(*rows, *pairs, scale=scale, dropout=dropout.dense())
        return out[:, :n]
    options = ChunkOptions(
        scale,
        look.chunk_length,
        _chunks_at_once(order, look, b * h, chunks_at_once, shards),
        dropout.rate,
        before=look.before,
        after=look.after,
        count_once=count_once,
        rounded=rounded,
        **masks,
    )
    heads = [jnp.swapaxes(x, 1, 2) for x in rows]
    out = chunk_rows(options, *heads, order, dropout.draws(0))
    return jnp.swapaxes(out, 1, 2)[:, :n]


def _met(order: Order, look: ChunkNeighbors) -> jax.Array:
    n = order.example_ids.shape[1]
    positions = order.inverse
    if positions is None:
        # One round in the order of the sequence: [1, 1, 1, n].
        positions = jnp.arange(n, dtype=jnp.int32)[None, None, None]
    return chunk_dense.meetings(positions, look.chunk_length, look.before, look.after)


def _chunks_at_once(
    order: Order, look: ChunkNeighbors, rows: int, requested: int | None, shards: int
) -> int:
    chunks = order.num_places // look.chunk_length
    if requested is not None:
        at_least(1).check(chunks_at_once=requested)
        return min(requested, chunks)
    keys = look.chunk_length * (1 + look.before + look.after)
    return even_chunk(chunks, rows, look.chunk_length, keys, shards)
