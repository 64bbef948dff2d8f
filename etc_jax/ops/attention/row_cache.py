"""Keys and values of the tokens so far, for attention of one token more.

    cache = fill(key, value, lengths, rows=1024)  # of a prompt
    cache = jax.tree.map(lambda x: x[None], cache)  # of one layer
    output, cache = step(query, key, value, cache, Newest(position, 0), radius=256)

Token p lies in row p % rows: a cache of a window has no more rows than the window, and
holds its last tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.types import LabelTable
from etc_jax.ops.attention.bias import BiasFn
from etc_jax.ops.attention.parts.softmax import MASKED, accumulation_dtype, dot

Array = jax.Array


class RowCache(NamedTuple):
    """Keys and values of several layers.

    Attributes:
      key, value: `[layers, b, rows, h, d]`; bfloat16 as uint16 of the same bits.
    """

    key: Array
    value: Array


class Newest(NamedTuple):
    """Where a step is.

    Attributes:
      position: int32 `[b]`, of the newest token, which is the last one.
      layer: int32 scalar, of the cache.
      length: int32 `[b]`, which attention over chunks reads: of the array that it would
        get, with padding after the newest token. What is longer than a chunk is cut
        into chunks, and how many these are makes their circle. Without padding it is
        position + 1.
      beam: int32 `[b / k, k, length]`, of k sequences of one input, one after the
        other: which of the k has the row of each token of a sequence. None: its own. So
        a sequence that goes on from another one needs no copy of its rows.
    """

    position: Array
    layer: Array | int
    length: Array | None = None
    beam: Array | None = None


def window_rows(radius: int, dilation: int | Sequence[int], length: int) -> int:
    """Rows that a causal window needs, of at most `length` tokens."""
    steps = (dilation,) if isinstance(dilation, int) else dilation
    # As far back as the head with the widest steps looks, and the newest token.
    return min(radius * max(steps) + 1, length)


def fill(key: Array, value: Array, lengths: Array, rows: int) -> RowCache:
    """The cache of one layer, without the axis of layers.

    Args:
      key: `[b, n, h, d]` of a prompt.
      value: `[b, n, h, d]` of a prompt.
      lengths: int `[b]`, tokens of each row; what follows is padding.
      rows: of the cache.
    """
    return RowCache(*(bits(last_rows(x, lengths, rows)) for x in (key, value)))


def last_rows(x: Array, lengths: Array, rows: int) -> Array:
    """`[b, n, ...]` -> `[b, rows, ...]`, the last tokens of each, p in row p % rows."""
    # [b, rows] -> [b, rows, 1, ...], which broadcasts over heads and features.
    token = jnp.maximum(tokens_of(rows, lengths - 1), 0)  # rows without one: any
    token = token.reshape(*token.shape, *(1,) * (x.ndim - 2))
    return jnp.take_along_axis(x, token, axis=1, mode="promise_in_bounds")


def tokens_of(rows: int, position: Array) -> Array:
    """The token that stands in each row: int32 `[b, rows]`, below 0 for none.

    Args:
      rows: of the cache.
      position: int `[b]`, of the newest token in it.
    """
    row = jnp.arange(rows, dtype=jnp.int32)[None]
    # The last token up to `position` that has this remainder: p % rows == row.
    return position[:, None] - (position[:, None] - row) % rows


def put(x: Array, row: Array, now: Newest) -> Array:
    """A part of a cache `[layers, b, rows, ...]` with the newest row `[b, 1, ...]`."""
    batch = jnp.arange(x.shape[1], dtype=jnp.int32)
    # [b, h, d], over the oldest token of each sequence, or in a free row.
    at = x.at[now.layer, batch, now.position % x.shape[2]]
    return at.set(bits(row[:, 0]), mode="promise_in_bounds", unique_indices=True)


def take(x: Array, at: tuple[Array | int, ...], dtype) -> Array:
    """Rows `[..., d]` of a cache at indices of its first axes, in their own `dtype`."""
    rows = x.at[at].get(mode="promise_in_bounds")
    return rows if rows.dtype == dtype else jax.lax.bitcast_convert_type(rows, dtype)


def bits(x: Array) -> Array:
    """What a cache holds of rows, of their shape: numbers of 16 bits as integers.

    XLA on CPU has no such numbers, and to write one row would turn the whole cache into
    float32 and back.
    """
    if jnp.finfo(x.dtype).bits > 16:
        return x
    # A bitcast is exact: `take` gives back the same numbers.
    return jax.lax.bitcast_convert_type(x, jnp.uint16)


def step(
    query: Array,
    key: Array,
    value: Array,
    cache: RowCache,
    now: Newest,
    *,
    radius: int | None = None,
    dilation: int | Sequence[int] = 1,
    offsets: LabelTable | None = None,
    bias: BiasFn | None = None,
    scale: float | None = None,
) -> tuple[Array, RowCache]:
    """Causal attention of the newest token, of a window or of everything.

    Args:
      query: `[b, 1, h, d]`, of the newest token.
      key: `[b, 1, h, d]`, of the newest token.
      value: `[b, 1, h, d]`, of the newest token.
      cache: of the tokens before it; what it has no rows for is not seen.
      now: where it stands.
      radius: keys before it, in steps; None: all.
      dilation: places of a step, of all heads or of each.
      offsets: products of offsets, see `sliding_window.attend`; needs `radius`.
      bias: function of offsets, or None.
      scale: of the products; None: 1 / sqrt(d).

    Returns:
      (`[b, 1, h, d]`, the cache with the newest token).

    Raises:
      ValueError: if the rows are not those of one token.
    """
    check_newest(query, key, value)
    h, rows = query.shape[2], cache.key.shape[2]
    cache = RowCache(put(cache.key, key, now), put(cache.value, value, now))
    # [b, rows]: no row has a token after the newest one, so this is causal.
    token = tokens_of(rows, now.position)
    offset = token - now.position[:, None]
    steps = (dilation,) * h if isinstance(dilation, int) else dilation
    # [1, h, 1] with [b, 1, rows]: seen is [b, h, rows].
    steps = jnp.asarray(steps, jnp.int32)[None, :, None]
    seen = (token >= 0)[:, None] & (offset[:, None] % steps == 0)
    if radius is not None:
        seen &= offset[:, None] >= -radius * steps
    if scale is None:
        scale = query.shape[-1] ** -0.5
    dtype, more = accumulation_dtype(query.dtype), 0.0
    if offsets is not None:
        # [b, 1, h, d] x [2r + 1, h, d] -> [b, h, 1, 2r + 1], a logit for each offset.
        t = dot("bqhd,vhd->bhqv", query, offsets.embedding, dtype)
        t += offsets.bias.T[None, :, None].astype(dtype)
        # Offset in steps -> 0..2r; what is clipped is not seen.
        label = jnp.clip(offset[:, None] // steps + radius, 0, 2 * radius)
        label = jnp.broadcast_to(label, (*t.shape[:2], rows))[:, :, None]
        # [b, h, 1, rows], scaled as the product that it is added to.
        more += jnp.take_along_axis(t, label, axis=-1) * scale
    if bias is not None:
        # [b, rows] -> [h or 1, b, rows] -> [b, h or 1, 1, rows], not scaled.
        more += jnp.moveaxis(bias(offset), 0, 1)[:, :, None].astype(dtype)
    rows_of = [take(x, (now.layer,), query.dtype) for x in cache]
    if now.beam is None:
        return over_rows(query, *rows_of, seen[:, :, None], scale, more), cache
    return _over_beams(query, rows_of, seen, scale, more, token, now.beam), cache


def _over_beams(query, rows_of, seen, scale, more, token, beam) -> Array:
    """`over_rows`, with the rows of all k sequences of an input as keys of each."""
    b, k, length = beam.shape

    def by_input(x):
        # [b * k, h or 1, rows] -> [b, h or 1, k, 1, rows] -> [b, h or 1, k, k * rows]
        x = jnp.swapaxes(x.reshape(b, k, *x.shape[1:]), 1, 2)[:, :, :, None]
        x = jnp.broadcast_to(x, (*x.shape[:3], k, x.shape[4]))
        return x.reshape(*x.shape[:3], -1)

    # Which sequence has the token of each row: [b, k, rows].
    index = jnp.clip(token, 0, length - 1).reshape(b, k, -1)
    owner = jnp.take_along_axis(beam, index, axis=2, mode="promise_in_bounds")
    # Query q sees row w of sequence j: [b, q, j, w] -> [b, 1, q, j * w].
    is_owner = owner[:, :, None] == jnp.arange(k)[None, None, :, None]
    is_owner = is_owner.reshape(b, 1, k, -1)
    if not isinstance(more, float):
        more = by_input(more[:, :, 0])
    out = over_rows(
        query.reshape(b, k, *query.shape[2:]),
        # [b * k, rows, h, d] -> [b, k * rows, h, d], as they lie.
        *(x.reshape(b, k * x.shape[1], *x.shape[2:]) for x in rows_of),
        by_input(seen) & is_owner,
        scale,
        more,
    )
    return out.reshape(query.shape)


def over_rows(
    query: Array,
    key: Array,
    value: Array,
    seen: Array,
    scale: float,
    more: Array | float = 0.0,
) -> Array:
    """Attention of newest tokens over some rows.

    Args:
      query: `[b, k, h, d]`, one of each of k sequences.
      key: `[b, w, h, d]`.
      value: `[b, w, h, d]`.
      seen: bool `[b, h or 1, k, w]`.
      scale: of the products.
      more: what is added to them then, broadcastable to `[b, h, k, w]`.

    Returns:
      `[b, k, h, d]`.
    """
    dtype = accumulation_dtype(query.dtype)
    # [b, k, h, d] x [b, w, h, d] -> [b, h, k, w]. Sums and softmax are in float32.
    logits = dot("bqhd,bwhd->bhqw", query, key, dtype) * scale + more
    # The newest token sees itself, so that no row is all MASKED.
    weights = jax.nn.softmax(jnp.where(seen, logits, MASKED))
    return dot("bhqw,bwhd->bqhd", weights, value, dtype).astype(query.dtype)


def check_newest(*rows: Array) -> None:
    """Raises ValueError if these are not rows `[b, 1, h, d]` of one shape."""
    shapes = [x.shape for x in rows]
    if len(set(shapes)) > 1 or len(shapes[0]) != 4 or shapes[0][1] != 1:
        listed = ", ".join(map(str, shapes))
        raise ValueError(
            f"the newest token's rows have shapes {listed}; expected one shape "
            "[batch, 1, heads, head_dim]"
        )
