"""LSH attention and local attention of one token more, from a cache of those before.

    cache = lsh_cache(query_key, value, buckets, lengths, length=1024)  # of a prompt
    cache = jax.tree.map(lambda x: x[None], cache)  # of one layer
    look = ChunkNeighbors(64)
    output, cache = lsh_step(*rows, buckets, cache, 0, position, look=look)

The newest token sees what `lsh.attend` and `lsh.local` show, with `causal`, to the last
token of the sequence so far: chunks of the tokens known by now, sorted anew for each,
and in a circle. So what a token saw when it was the newest is not what it sees once
others have come: those move the borders of sorted chunks, and change what follows a
chunk in the circle. Both are the same where one chunk is all that there is, and in
local attention that looks at one chunk before its own, or none, and none after it.

A step costs O(length) comparisons of integers, as tokens are kept in order, and gathers
the keys and values of one window a round, whatever the length.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.ops.attention import row_cache
from etc_jax.ops.attention.lsh import ChunkNeighbors, check_choices, unit_keys
from etc_jax.ops.attention.parts.chunk_dense import SELF
from etc_jax.ops.attention.parts.softmax import MASKED, accumulation_dtype, dot
from etc_jax.ops.attention.row_cache import (
    Newest,
    RowCache,
    bits,
    check_newest,
    last_rows,
    over_rows,
    put,
    take,
)

Array = jax.Array

# Of a place where no token stands: after all others.
FREE = np.iinfo(np.int32).max


class LshCache(NamedTuple):
    """Keys, values and sorted places of LSH attention, of several layers.

    Attributes:
      key: of length 1, `[layers, b, length, h, d]`; bfloat16 as in `RowCache`.
      value: of length 1, `[layers, b, length, h, d]`; bfloat16 as in `RowCache`.
      numbers: int32 `[layers, b, h, rounds, length]`: bucket * length + token at each
        place of a round, in order; `FREE` after the last token.
    """

    key: Array
    value: Array
    numbers: Array


# --- the cache of a prompt ------------------------------------------------------------


def local_cache(
    key: Array, value: Array, lengths: Array, *, look: ChunkNeighbors, length: int
) -> RowCache:
    """The cache of one layer, without the axis of layers.

    Args:
      key: `[b, n, h, d]` of a prompt.
      value: `[b, n, h, d]` of a prompt.
      lengths: int `[b]`, tokens of each row; what follows is padding.
      look: of the attention.
      length: longest sequence that there will be.
    """
    # In a circle, the last chunk looks ahead at the first one.
    window_tokens = look.chunk_length * (look.before + 1)
    rows = length if look.after else min(length, window_tokens)
    return row_cache.fill(key, value, lengths, rows)


def lsh_cache(
    query_key: Array,
    value: Array,
    buckets: Array,
    lengths: Array,
    *,
    num_buckets: int,
    length: int,
) -> LshCache:
    """The cache of one layer, without the axis of layers.

    Args:
      query_key: `[b, n, h, d]` of a prompt.
      value: `[b, n, h, d]` of a prompt.
      buckets: int `[b, h, rounds, n]`; also of a prompt of one chunk.
      lengths: see `local_cache`.
      num_buckets: how many there are, now and later.
      length: see `local_cache`.

    Raises:
      ValueError: if the buckets are not those of such rows, or too many to be sorted.
    """
    b, n, h, _ = query_key.shape
    if buckets.ndim != 4 or (*buckets.shape[:2], buckets.shape[3]) != (b, h, n):
        raise ValueError(
            f"buckets have shape {buckets.shape}, expected {(b, h, 'rounds', n)}"
        )
    if num_buckets * length > FREE:
        raise ValueError(
            f"num_buckets {num_buckets} and length {length} are too large to be sorted "
            "by 32-bit numbers; take fewer buckets"
        )
    token = jax.lax.broadcasted_iota(jnp.int32, buckets.shape, 3)
    # [b, h, rounds, n]; padding becomes `FREE`, which is sorted last.
    is_real = token < lengths[:, None, None, None]
    buckets = buckets.astype(jnp.int32)
    numbers = jnp.sort(jnp.where(is_real, buckets * length + token, FREE))[..., :length]
    missing = [(0, 0)] * 3 + [(0, length - numbers.shape[3])]
    numbers = jnp.pad(numbers, missing, constant_values=FREE)
    # [b, n, h, d] -> [b, length, h, d]: token p in row p, as there is a row for each.
    rows = (last_rows(x, lengths, length) for x in (unit_keys(query_key), value))
    return LshCache(*map(bits, rows), numbers)


# --- one token more -------------------------------------------------------------------


def local_step(
    query: Array,
    key: Array,
    value: Array,
    cache: RowCache,
    now: Newest,
    *,
    look: ChunkNeighbors,
) -> tuple[Array, RowCache]:
    """Local attention of the newest token.

    Args:
      query: `[b, 1, h, d]`, of the newest token.
      key: `[b, 1, h, d]`, of the newest token.
      value: `[b, 1, h, d]`, of the newest token.
      cache: of the tokens before it.
      now: where they are.
      look: chunks of the sequence.

    Returns:
      (`[b, 1, h, d]`, the cache with the newest token).
    """
    check_newest(query, key, value)
    cache = RowCache(put(cache.key, key, now), put(cache.value, value, now))
    position = now.position[:, None, None]
    # One round for all heads, in which place is position: [b, 1, 1, chunks, c].
    _, token, looked = _window(position, now.length, look)
    seen = looked & (token <= position[..., None, None])
    token, seen = (x.reshape(x.shape[0], -1) for x in (token, seen))
    batch = jnp.arange(len(token), dtype=jnp.int32)[:, None]
    at = (now.layer, batch, token % cache.key.shape[2])
    rows = (take(x, at, query.dtype) for x in cache)
    scale = query.shape[-1] ** -0.5
    return over_rows(query, *rows, seen[:, None, None], scale), cache


def lsh_step(
    query_key: Array,
    value: Array,
    buckets: Array,
    cache: LshCache,
    now: Newest,
    *,
    look: ChunkNeighbors,
    duplicates: str = "count",
    rounding: str = "exact",
) -> tuple[Array, LshCache]:
    """LSH attention of the newest token.

    Args:
      query_key: `[b, 1, h, d]`, of the newest token, not normalised.
      value: `[b, 1, h, d]`, of the newest token.
      buckets: int `[b, h, rounds, 1]`, of the newest token.
      cache: of the tokens before it.
      now: where they are.
      look: chunks of sorted tokens.
      duplicates: of `lsh.DUPLICATES`.
      rounding: of `lsh.ROUNDINGS`.

    Returns:
      (`[b, 1, h, d]`, the cache with the newest token).

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_choices(duplicates, rounding)
    check_newest(query_key, value)
    want = (*cache.numbers.shape[1:4], 1)
    if buckets.shape != want:
        raise ValueError(f"buckets have shape {buckets.shape}, expected {want}")
    numbers = jax.lax.dynamic_index_in_dim(cache.numbers, now.layer, keepdims=False)
    numbers, rank = _sorted_in(numbers, buckets, now.position)
    cache = LshCache(
        put(cache.key, unit_keys(query_key), now),
        put(cache.value, value, now),
        jax.lax.dynamic_update_index_in_dim(cache.numbers, numbers, now.layer, 0),
    )
    # [b, h, rounds, w], and of these tokens keys and values [b, h, rounds, w, d].
    token, seen = _tokens_in_window(numbers, rank, now, look)
    of_token = functools.partial(_of_heads, token=token, layer=now.layer)
    keys, values = (of_token(x, dtype=value.dtype) for x in (cache.key, cache.value))
    dtype = accumulation_dtype(query_key.dtype)
    # [b, 1, h, d] x [b, h, rounds, w, d] -> [b, h, rounds, w], in float32.
    logits = dot("bqhd,bhrwd->bhrw", query_key, keys, dtype)
    if duplicates == "once":
        # m copies, each less log m, weigh as one key.
        logits -= jnp.log(_copies(token, seen).astype(dtype))
    # All copies of a token are met equally often by it: they need no count.
    logits = jnp.where(token == now.position[:, None, None, None], SELF, logits)
    # The newest token sees itself, if only by `SELF`: no row is all MASKED.
    logits = jnp.where(seen, logits, MASKED)
    weights = _rounded(logits) if rounding == "transformers" else _softmax(logits)
    out = dot("bhrw,bhrwd->bhd", weights, values, dtype)[:, None]
    return out.astype(query_key.dtype), cache


def _sorted_in(numbers: Array, buckets: Array, position: Array) -> tuple[Array, Array]:
    """The sorted numbers with the newest token, and its place in each round.

    Args:
      numbers: int32 `[b, h, rounds, length]`.
      buckets: int `[b, h, rounds, 1]`.
      position: int `[b]`.
    """
    bucket_start = buckets.astype(jnp.int32) * numbers.shape[3]
    number = bucket_start + position[:, None, None, None]
    # [b, h, rounds, 1]: as many places as there are smaller numbers.
    rank = jnp.sum(numbers < number, axis=-1, keepdims=True, dtype=jnp.int32)
    slot = jax.lax.broadcasted_iota(jnp.int32, numbers.shape, 3)
    # What comes after moves on by one place, without sorting again.
    moved = jnp.where(slot == rank, number, jnp.roll(numbers, 1, axis=-1))
    return jnp.where(slot < rank, numbers, moved), rank[..., 0]


def _window(
    rank: Array, length: Array, look: ChunkNeighbors
) -> tuple[Array, Array, Array]:
    """The places that the newest token looks at.

    Args:
      rank: int `[b, h or 1, rounds]`, its own.
      length: int `[b]`, see `Newest`.
      look: chunks.

    Returns:
      (round `[b, h, rounds, chunks, 1]`, place there `[b, h, rounds, chunks, c]`, bool
      `[b, 1, rounds, chunks, 1]`: false for what is not looked at). Places may lie
      after the newest token's sequence.
    """
    c, rounds = look.chunk_length, rank.shape[2]
    steps = jnp.arange(-look.before, look.after + 1, dtype=jnp.int32)
    round_ = jnp.arange(rounds, dtype=jnp.int32)[None, None, :, None]
    per_round = -(-length // c)[:, None, None, None]
    chunk = round_ * per_round + rank[..., None] // c + steps[None, None, None]
    chunk = (chunk % (rounds * per_round))[..., None]
    per_round = per_round[..., None]
    inside = jnp.arange(c, dtype=jnp.int32)[None, None, None, None]
    # A sequence of one chunk is attended whole: one round, in which it is met once.
    once = (round_ == 0) & (steps[None, None, None] == 0)
    looked = (per_round > 1) | once[..., None]
    # A look over the border of a round gives a chunk of another round.
    return chunk // per_round, chunk % per_round * c + inside, looked


def _tokens_in_window(
    numbers: Array, rank: Array, now: Newest, look: ChunkNeighbors
) -> tuple[Array, Array]:
    """(the tokens that the newest one looks at, whether it sees them).

    Both are `[b, h, rounds, w]`: those that a round shows.
    """
    b, h, rounds, length = numbers.shape
    round_, slot, looked = _window(rank, now.length, look)
    # Tokens lie in front: as many as there are, then padding.
    seen = looked & (slot <= now.position[:, None, None, None, None])
    at = round_ * length + jnp.minimum(slot, length - 1)
    number = jnp.take_along_axis(
        numbers.reshape(b, h, -1), at.reshape(b, h, -1), -1, mode="promise_in_bounds"
    )
    # The remainder is the token; of `FREE` it is any, which is not seen.
    return (number % length).reshape(b, h, rounds, -1), seen.reshape(b, h, rounds, -1)


def _of_heads(x: Array, token: Array, layer: Array | int, dtype) -> Array:
    """`[layers, b, length, h, d]` at int `[b, h, rounds, w]` of a layer."""
    b, h = token.shape[:2]
    batch = jnp.arange(b, dtype=jnp.int32)[:, None, None, None]
    head = jnp.arange(h, dtype=jnp.int32)[None, :, None, None]
    return take(x, (layer, batch, token, head), dtype)


def _copies(token: Array, seen: Array) -> Array:
    """How often each token is seen in all rounds; at least 1. `[b, h, rounds, w]`."""
    # [b, h, rounds * w]: copies may be in any round.
    flat = jnp.where(seen, token, -1).reshape(*token.shape[:2], -1)

    def count(tokens):
        ordered = jnp.sort(tokens)
        start, stop = (
            jnp.searchsorted(ordered, tokens, side=side) for side in ("left", "right")
        )
        return stop - start

    return jax.vmap(jax.vmap(count))(flat).reshape(token.shape)


def _softmax(logits: Array) -> Array:
    """One softmax over what all rounds show."""
    return jax.nn.softmax(logits, axis=(-2, -1))


def _rounded(logits: Array) -> Array:
    """`_softmax`, in the order of transformers' Reformer: see `lsh.ROUNDINGS`."""
    of_round = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    # The barrier keeps a compiler from finding out that it cancels.
    of_round = jax.lax.optimization_barrier(of_round)
    of_all = jax.nn.logsumexp(of_round, axis=-2, keepdims=True)
    return jnp.exp((logits - of_round) + (of_round - of_all))
