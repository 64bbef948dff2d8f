"""Some queries over all keys in tiles that stay in a CPU's cache: `whole_rows` there.

A tile is a few heads of one example with some queries and all keys: one softmax of one
small array. Tiles run one after the other, so that only a CPU works well with them. The
backward pass works the logits out again from the saved log-sum-exp.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention.parts.inline_pairs import (
    Tokens,
    as_columns,
    as_rows,
    same_example,
)
from etc_jax.ops.attention.parts.softmax import (
    accumulation_dtype,
    dot,
    finish,
    masked_logits,
    row_deltas,
    score_gradients,
)

Array = jax.Array

# Queries of a tile, and bytes of its logits unless one head has more.
QUERIES = 64
TILE_BYTES = 2**19
# Fewer queries are too little work for a tile.
FEWEST = 16


class TileOptions(NamedTuple):
    """Static choices.

    Attributes:
      scale: of the products.
      causal: no key after the query.
      heads: of a tile.
    """

    scale: float
    causal: bool
    heads: int


def is_faster(queries: int, shards: int) -> bool:
    """Whether the device compiled for takes less time by tiles.

    Args:
      queries: of a head.
      shards: devices that batch and heads are split over; tiles would gather them.
    """
    return blocking.for_cpu() and shards == 1 and queries >= FEWEST


def attend(
    query: Array,
    key: Array,
    value: Array,
    query_tokens: Tokens,
    tokens: Tokens,
    *,
    causal: bool,
    scale: float,
) -> Array:
    """Attention of some queries to all keys of their example.

    Args:
      query: `[b, q, h, d]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      query_tokens: of the queries, `[b, q]`.
      tokens: of the keys, `[b, k]`.
      causal: no key after the query.
      scale: of the products.

    Returns:
      `[b, q, h, d]`; rows that see nothing are zero.
    """
    n, h = query.shape[1:3]
    size = min(QUERIES, n)
    query, query_tokens = jax.tree.map(
        lambda x: sequence.pad_to_multiple(x, 1, size), (query, query_tokens)
    )
    rows = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    options = TileOptions(scale, causal, _heads_of_a_tile(h, key.shape[1]))
    both = jax.tree.map(jnp.asarray, (query_tokens, tokens))
    out = tiled_rows(options, *rows, both)
    return jnp.swapaxes(out, 1, 2)[:, :n]


def _heads_of_a_tile(num_heads: int, keys: int) -> int:
    """The most heads whose logits are of `TILE_BYTES`; they divide all, 1 or more."""
    most = max(1, TILE_BYTES // (4 * QUERIES * keys))
    return max(r for r in range(1, num_heads + 1) if num_heads % r == 0 and r <= most)


def _masked(options: TileOptions, scores, queries: Tokens, keys: Tokens) -> Array:
    """Logits of a tile, where the tokens are broadcast as the scores are."""
    seen = same_example(queries, keys, options.causal)
    witness = jnp.zeros((), jnp.int32)
    return masked_logits(scores, None, seen, None, options.scale, witness)


def _tiles(x: Array, heads: int) -> Array:
    """`[b, h, n, d]` -> `[b * h / r, r, n, d]`."""
    b, h, *rest = x.shape
    return x.reshape(b * h // heads, heads, *rest)


def _parts(x: Array, axis: int) -> Array:
    """Queries in parts: `[..., q, ...]` -> `[C, ..., QUERIES, ...]`."""
    size = min(QUERIES, x.shape[axis])
    return jnp.moveaxis(blocking.blocks(x, x.shape[axis] // size, axis), axis, 0)


def _whole(x: Array, axis: int) -> Array:
    """The inverse of `_parts`."""
    return blocking.unblock(jnp.moveaxis(x, 0, axis), axis)


def _each_tile(options, fn, query_side, key_side, tokens) -> tuple:
    """`fn` of the tiles of an example's heads, for all of them.

    Args:
      options: static choices.
      fn: (parts of the queries `[C, r, q, d]`, keys `[r, k, d]`, tokens of the parts
        `[C, 1, q]`, of the keys `[1, k]`) -> arrays.
      query_side: `[b, h, q, ...]`.
      key_side: `[b, h, k, d]`.
      tokens: of the queries and of the keys.
    """
    heads = options.heads
    b, h = key_side[0].shape[:2]
    example = jnp.arange(b * h // heads, dtype=jnp.int32) // (h // heads)
    queries, keys = tokens
    parts = jax.tree.map(lambda x: jnp.moveaxis(_parts(x, 1), 0, 1), queries)

    def one(tile):
        rows, columns, example = tile
        at = functools.partial(jax.tree.map, lambda x: x[example][..., None, :])
        return fn([_parts(x, 1) for x in rows], columns, at(parts), at(keys))

    sides = ([_tiles(x, heads) for x in side] for side in (query_side, key_side))
    return jax.lax.map(one, (*sides, example))


def _forward(options, query, key, value, tokens):
    dtype = accumulation_dtype(query.dtype)

    def of_heads(rows, columns, parts, keys):
        key, value = columns

        def of_part(part):
            query, queries = part
            # Queries are rows: [r, q, k].
            scores = dot("rqd,rkd->rqk", query, key, dtype)
            logits = _masked(options, scores, as_rows(queries), as_columns(keys))
            top = logits.max(-1)
            weights = jnp.exp(logits - top[..., None])
            acc = dot("rqk,rkd->rqd", weights, value, dtype)
            output, lse = finish(acc, weights.sum(-1), top)
            return output.astype(query.dtype), lse

        parts_out = jax.lax.map(of_part, (rows[0], parts))
        return tuple(_whole(x, 1) for x in parts_out)

    results = _each_tile(options, of_heads, [query], [key, value], tokens)
    return tuple(x.reshape(*query.shape[:2], *x.shape[2:]) for x in results)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def tiled_rows(
    options: TileOptions,
    query: Array,
    key: Array,
    value: Array,
    tokens: tuple[Tokens, Tokens],
) -> Array:
    """Attention of some queries to all keys of their example.

    Args:
      options: static choices; `heads` divides h.
      query: `[b, h, q, d]`, at most `QUERIES` of them or a multiple of that.
      key: `[b, h, k, d]`.
      value: `[b, h, k, d]`.
      tokens: `[b, q]` of the queries, `[b, k]` of the keys; an id of 0 is padding.

    Returns:
      `[b, h, q, d]`; rows that see nothing are zero.
    """
    return _forward(options, query, key, value, tokens)[0]


def _vjp_forward(options, *inputs):
    output, lse = checkpoint_name(_forward(options, *inputs), "attention")
    return output, (inputs, output, lse)


def _vjp_backward(options, saved, d_output):
    (query, key, value, tokens), output, lse = saved
    dtype = accumulation_dtype(query.dtype)
    delta = jnp.squeeze(row_deltas(output, d_output, dtype), -2)

    def of_heads(rows, columns, parts, keys):
        key, value = columns

        def of_part(carry, part):
            (query, d_output, lse, delta), queries = part
            # Keys are rows, which is faster here: [r, k, q].
            scores = dot("rkd,rqd->rkq", key, query, dtype)
            logits = _masked(options, scores, as_columns(queries), as_rows(keys))
            dp = dot("rkd,rqd->rkq", value, d_output, dtype)
            lse, delta = lse[:, None], delta[:, None]
            p, ds = score_gradients(logits, lse, None, dp, delta, options.scale)
            d_key, d_value = carry
            d_key += dot("rkq,rqd->rkd", ds, query, dtype)
            d_value += dot("rkq,rqd->rkd", p, d_output, dtype)
            return (d_key, d_value), dot("rkq,rkd->rqd", ds, key, dtype)

        none = tuple(jnp.zeros(x.shape, dtype) for x in columns)
        sums, d_query = jax.lax.scan(of_part, none, (rows, parts))
        return (_whole(d_query, 1), *sums)

    rows = [query, d_output, lse, delta]
    gradients_by_tile = _each_tile(options, of_heads, rows, [key, value], tokens)
    inputs = query, key, value
    gradients = (
        x.reshape(of.shape).astype(of.dtype)
        for x, of in zip(gradients_by_tile, inputs, strict=True)
    )
    return (*gradients, None)


tiled_rows.defvjp(_vjp_forward, _vjp_backward)
