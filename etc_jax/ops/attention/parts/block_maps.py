"""Attention block by block: a function of one block, mapped over all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention.parts import tiled_rows
from etc_jax.ops.attention.parts.inline_pairs import of_examples
from etc_jax.ops.attention.parts.pairs import SequenceShard
from etc_jax.ops.attention.parts.whole_rows import WholeOptions, whole_rows

Array = jax.Array

# Queries of a part: with 1,024 keys of 12 heads its logits stay in a CPU's cache.
QUERIES = 128
WHOLE_SEQUENCE = SequenceShard()


def on_each_device(
    fn: Callable[..., Array],
    arrays: tuple[Array, ...],
    split: tuple[bool, ...],
    rng: Array | None,
    size: int,
    axis_name: str | None,
) -> Array:
    """`fn` of arrays, some of which have a sequence of whole blocks, on each device.

    Args:
      fn: of the arrays and `rng`, and with it `shard`, where the sequence is split.
      arrays: `[b, n, ...]`.
      split: which of them have the sequence; others are the same on each device.
      rng: key of dropout, or None.
      size: of a block, of which each device has whole ones.
      axis_name: mesh axis of the sequence; None: it is whole.
    """
    ways = 1 if axis_name is None else sequence.size(axis_name)
    arrays = [
        sequence.pad_to_multiple(x, 1, size * ways) if parts else x
        for x, parts in zip(arrays, split, strict=True)
    ]
    if axis_name is None:
        return fn(*arrays, rng)
    shard = SequenceShard(axis_name, arrays[0].shape[1])
    long, everywhere = jax.P(None, axis_name), jax.P()
    specs = tuple(long if parts else everywhere for parts in split)
    fn = functools.partial(fn, shard=shard)
    return sequence.split(fn, axis_name, (*specs, everywhere), long)(*arrays, rng)


def blocks_first(x: Array, size: int) -> Array:
    """`[b, C * size, ...]` -> `[C, b, size, ...]`."""
    return jnp.moveaxis(blocking.blocks(x, x.shape[1] // size, 1), 1, 0)


def blocks_at_once(query: Array, size: int, keys: int, shards: int) -> int:
    """Blocks of queries whose logits have as many bytes as a step should; 1 or more.

    Args:
      query: `[b, n, h, d]`.
      size: queries of a block.
      keys: that each of them sees.
      shards: devices that batch and heads are split over.
    """
    b, n, h, _ = query.shape
    logits = 4 * -(-b * h // shards) * size * keys
    most = max(1, blocking.step_bytes() // logits)
    count = n // size
    return max(k for k in range(1, count + 1) if count % k == 0 and k <= most)


def each_block(fn, arrays, at_once: int, rng, shard: SequenceShard) -> Array:
    """`fn(*blocks, rng)` of each block, `[C, b, ...]` -> `[b, C * size, ...]`.

    Each has a key by its place in the whole sequence, so that neither devices nor how
    many blocks are computed at once change what dropout draws.
    """
    count = len(arrays[0])
    keys = None
    if rng is not None:
        number = shard.first(count) + jnp.arange(count, dtype=jnp.int32)
        keys = jax.vmap(functools.partial(jax.random.fold_in, rng))(number)
    # Mapped, not merged with the batch, which may be split over devices.
    some = jax.vmap(fn)
    steps = jax.tree.map(
        lambda x: x.reshape(count // at_once, at_once, *x.shape[1:]), (*arrays, keys)
    )
    if at_once == count:
        out = some(*arrays, keys)
    else:
        out = blocking.unblock(jax.lax.map(lambda x: some(*x), steps), 0)
    # [C, b, size, ...] -> [b, C * size, ...].
    return blocking.unblock(jnp.moveaxis(out, 0, 1), 1)


def attend_in_parts(
    query: Array,
    query_ids: Array,
    key: Array,
    value: Array,
    example_ids: Array,
    scale: float,
    dropout_rate: float,
    rng: Array | None,
    shards: int,
    shard: SequenceShard = WHOLE_SEQUENCE,
) -> Array:
    """Attention of queries to all keys, `QUERIES` of them at a time.

    Args:
      query: `[b, q, h, d]`.
      query_ids: int `[b, q]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      example_ids: int `[b, k]`.
      scale: of the products.
      dropout_rate: of attention probabilities.
      rng: key, or None.
      shards: devices that batch and heads are split over.
      shard: of the queries in the whole sequence.
    """
    if rng is None and tiled_rows.is_faster(query.shape[1], shards):
        tokens = of_examples(query_ids), of_examples(example_ids)
        return tiled_rows.attend(query, key, value, *tokens, causal=False, scale=scale)
    options = WholeOptions(scale, dropout_rate)

    def of_part(query, query_ids, rng):
        ids = query_ids, example_ids
        return whole_rows(options, query, key, value, ids, rng)

    n = query.shape[1]
    size = min(QUERIES, n)
    query, query_ids = (
        sequence.pad_to_multiple(x, 1, size) for x in (query, query_ids)
    )
    at_once = blocks_at_once(query, size, key.shape[1], shards)
    parts = [blocks_first(x, size) for x in (query, query_ids)]
    return each_block(of_part, parts, at_once, rng, shard)[:, :n]
