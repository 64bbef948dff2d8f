"""Long queries: one softmax over the local window and all global tokens (l2l + l2g).

Long rows are cut into blocks; a block of q rows with radius r sees an exact window of
q + 2r long keys, which overlapping slices give without gathers or third blocks
(paper, section 3.2 and appendix A). Window and global logits are two arrays with a
common maximum and sum; keys are never concatenated. Chunks of blocks run one after
the other, so the logits of the whole input never exist at once; the backward pass
recomputes them from the saved log-sum-exp.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.base.types import LabelTable
from etc_jax.ops import blocking
from etc_jax.ops.attention.bias import RowBias, SideBias, summed_to
from etc_jax.ops.attention.parts.dropout import Draws
from etc_jax.ops.attention.parts.softmax import (
    SoftmaxOptions,
    accumulation_dtype,
    dot,
    finish,
    masked_logits,
    row_deltas,
    score_gradients,
)

Array = jax.Array


def _chunk(options: SoftmaxOptions, pairs, index, arrays):
    """Blocks of one chunk: queries `[b, h, C, q, d]`, windows `[b, h, C, w, d]`."""
    size = options.chunk_blocks * options.block_size
    start = index * size
    query, key, value = arrays
    q = blocking.slice_axis(query, start, size, 2)
    # Keys have r places of padding in front: the window of row `start` starts there.
    wide = size + 2 * pairs.radius
    cut = functools.partial(
        blocking.windows,
        num_blocks=options.chunk_blocks,
        block_size=options.block_size,
        axis=2,
    )
    return (
        start,
        blocking.blocks(q, options.chunk_blocks, 2),
        cut(blocking.slice_axis(key, start, wide, 2)),
        cut(blocking.slice_axis(value, start, wide, 2)),
    )


def _label_logits(q: Array, table, dtype) -> Array | None:
    """`[b, h, C, q, d]` with `[V, h, d]`, `[V, h]` -> `[b, h, C, V, q]`."""
    if table is None:
        return None
    # [V, h] -> [1, h, 1, V, 1].
    bias = table.bias.astype(dtype).T[None, :, None, :, None]
    return dot("vhd,bhcqd->bhcvq", table.embedding.astype(q.dtype), q, dtype) + bias


def _biases(options, bias, start) -> tuple[Array | None, Array | None]:
    """Of the windows `[1, h or 1, 1, w, q]` and of the globals of one chunk."""
    if bias is None:
        return None, None
    side = bias.side
    if side is not None:
        size = options.chunk_blocks * options.block_size
        # [b, h or 1, g, C * q] -> [b, h or 1, C, g, q].
        side = blocking.blocks(side.of(start, size), options.chunk_blocks, 3)
        side = jnp.moveaxis(side, 3, 2)
    return bias.of_windows(options.block_size)[None, :, None], side


def _logits(options, pairs, start, q, k_window, side_key, table, bias, dtype):
    """Masked logits of the window `[b, h, C, w, q]` and of the globals, with labels."""
    blocks = (options.chunk_blocks, options.block_size)
    t = _label_logits(q, table, dtype)

    def part(scores, block_fn, bias):
        mask, labels = blocking.materialised(
            lambda start: block_fn(start, *blocks), start, start
        )
        logits = masked_logits(scores, t, mask, labels, options.scale, start, bias)
        return logits, labels

    of_window, of_side = _biases(options, bias, start)
    # [b, h, C, w, d] x [b, h, C, q, d] -> [b, h, C, w, q]: keys are rows.
    scores = dot("bhcwd,bhcqd->bhcwq", k_window, q, dtype)
    parts = [part(scores, pairs.l2l, of_window)]
    if side_key.shape[2]:
        # The same keys for all blocks: [b, h, C, g, q].
        scores = dot("bhgd,bhcqd->bhcgq", side_key, q, dtype)
        parts.append(part(scores, pairs.l2g, of_side))
    return parts


def _factors(options, draws, index, parts, dtype):
    """Dropout factors of each part of one chunk, the same in both passes."""
    if draws is None:
        return [None] * len(parts)
    start = index * options.chunk_blocks
    return [
        draws.stream(i).factors(options.dropout_rate, start, logits.shape, 2, dtype)
        for i, (logits, _) in enumerate(parts)
    ]


def _count(options: SoftmaxOptions, query: Array) -> int:
    return query.shape[2] // (options.chunk_blocks * options.block_size)


def _forward(
    options, query, key, value, side_key, side_value, table, bias, pairs, draws
):
    dtype = accumulation_dtype(query.dtype)

    def body(carry, index):
        start, q, k, v = _chunk(options, pairs, index, (query, key, value))
        parts = _logits(options, pairs, start, q, k, side_key, table, bias, dtype)
        # Window and globals are one softmax: a common maximum and sum, [b, h, C, q].
        top = functools.reduce(jnp.maximum, [s.max(-2) for s, _ in parts])
        weights = [jnp.exp(s - top[..., None, :]) for s, _ in parts]
        total = sum(w.sum(-2) for w in weights)
        # After the sum: dropout is of probabilities.
        factors = _factors(options, draws, index, parts, dtype)
        weights = [
            w if f is None else w * f for w, f in zip(weights, factors, strict=True)
        ]
        acc = dot("bhcwq,bhcwd->bhcqd", weights[0], v, dtype)
        if len(parts) > 1:
            acc += dot("bhcgq,bhgd->bhcqd", weights[1], side_value, dtype)
        output, lse = finish(acc, total, top)
        return carry, (output.astype(query.dtype), lse)

    _, (output, lse) = blocking.each_step(body, (), _count(options, query))
    return blocking.join_steps(output, 2), blocking.join_steps(lse, 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def long_rows(
    options,
    query,
    key,
    value,
    side_key,
    side_value,
    table,
    bias: RowBias | None,
    pairs,
    draws,
):
    """Attention of long queries over their windows and all global tokens.

    Args:
      options: static choices.
      query: `[b, h, n, d]`, n a whole number of chunks.
      key: `[b, h, r + n + r, d]`, padded by `pairs.radius` on each side.
      value: `[b, h, r + n + r, d]`, padded by `pairs.radius` on each side.
      side_key: `[b, h, g, d]` of the global tokens; g may be 0.
      side_value: `[b, h, g, d]` of the global tokens; g may be 0.
      table: `LabelTable` with `[V, h, d]`, `[V, h]`, or None.
      bias: of windows and global tokens, or None.
      pairs: masks and labels of the blocks.
      draws: of attention dropout, or None.

    Returns:
      `[b, h, n, d]` in the dtype of `query`; rows that see nothing are zero.
    """
    return _forward(
        options, query, key, value, side_key, side_value, table, bias, pairs, draws
    )[0]


def _vjp_forward(options, *inputs):
    output, lse = checkpoint_name(_forward(options, *inputs), "attention")
    return output, (inputs, output, lse)


class _Inputs(NamedTuple):
    """The arguments of `long_rows` after its options."""

    query: Array
    key: Array
    value: Array
    side_key: Array
    side_value: Array
    table: LabelTable | None
    bias: RowBias | None
    pairs: Any
    draws: Draws | None


def _no_gradients(x: _Inputs, dtype) -> dict[str, Array]:
    """Zeros for the sums over chunks: all gradients but that of the queries."""
    zeros = {
        name: jnp.zeros(getattr(x, name).shape, dtype)
        for name in ("key", "value", "side_key", "side_value")
    }
    if x.table is not None:
        zeros["embedding"] = jnp.zeros(x.table.embedding.shape, dtype)
        zeros["label_bias"] = jnp.zeros(x.table.bias.shape, dtype)
    if x.bias is not None:
        # The batch is summed at last, so that its devices do it once.
        zeros["bias"] = jnp.zeros((*x.query.shape[:2], x.bias.window.shape[-1]), dtype)
        if x.bias.side is not None:
            zeros["side_bias"] = x.bias.side.no_gradient(dtype)
    return zeros


def _add_chunk(options, x: _Inputs, rows, totals: dict[str, Array], index):
    """(sums with the gradients of one chunk, that of its queries `[b, h, C, q, d]`).

    Args:
      options: static choices.
      x: the inputs.
      rows: (output, log-sum-exp, gradient of the output), `[b, h, n, ...]` each.
      totals: of `_no_gradients`, with those of the chunks before.
      index: of the chunk.
    """
    dtype = accumulation_dtype(x.query.dtype)
    start, q, k, v = _chunk(options, x.pairs, index, x[:3])
    parts = _logits(options, x.pairs, start, q, k, x.side_key, x.table, x.bias, dtype)
    factors = _factors(options, x.draws, index, parts, dtype)
    size = options.chunk_blocks * options.block_size
    output, lse, do = (
        blocking.blocks(blocking.slice_axis(a, start, size, 2), options.chunk_blocks, 2)
        for a in rows
    )
    # [b, h, C, q] -> [b, h, C, 1, q], a row beside the keys.
    lse, delta = lse[..., None, :], row_deltas(output, do, dtype)

    # (p after dropout, ds), [b, h, C, w or g, q].
    def part_gradients(i, to_weights, values):
        dp = dot(to_weights, values, do, dtype)
        logits = parts[i][0]
        return score_gradients(logits, lse, factors[i], dp, delta, options.scale)

    def add_window(name, equation, weights, values):
        # [b, h, C, w, d], summed where the windows overlap.
        windows = dot(equation, weights, values, dtype)
        return blocking.add_windows(totals[name], windows, options.block_size, start, 2)

    totals = dict(totals)
    p, ds = part_gradients(0, "bhcwd,bhcqd->bhcwq", v)
    totals["value"] = add_window("value", "bhcwq,bhcqd->bhcwd", p, do)
    totals["key"] = add_window("key", "bhcwq,bhcqd->bhcwd", ds, q)
    dq = dot("bhcwq,bhcwd->bhcqd", ds, k, dtype)
    scores = [ds]
    if len(parts) > 1:
        p, ds = part_gradients(1, "bhgd,bhcqd->bhcgq", x.side_value)
        totals["side_value"] += dot("bhcgq,bhcqd->bhgd", p, do, dtype)
        totals["side_key"] += dot("bhcgq,bhcqd->bhgd", ds, q, dtype)
        dq += dot("bhcgq,bhgd->bhcqd", ds, x.side_key, dtype)
        scores.append(ds)
    if x.table is not None:
        totals, of_labels = _add_labels(x.table, parts, totals, q, scores, dtype)
        dq += of_labels
    if x.bias is not None:
        totals = _add_biases(x.bias, totals, scores, start)
    return totals, dq.astype(x.query.dtype)


def _add_labels(table: LabelTable, parts, totals, q, scores, dtype):
    """(sums with the gradient of the label table, that of the queries by labels)."""
    # Both parts read one table: [b, h, C, V, q].
    dt = sum(
        labels.gradient(ds, table.bias.shape[0])
        for ds, (_, labels) in zip(scores, parts, strict=True)
        if labels is not None
    )
    embedding = totals["embedding"] + dot("bhcvq,bhcqd->vhd", dt, q, dtype)
    # [b, h, C, V, q] -> [h, V] -> [V, h].
    bias = totals["label_bias"] + jnp.sum(dt, axis=(0, 2, 4)).T
    of_queries = dot("bhcvq,vhd->bhcqd", dt, table.embedding.astype(q.dtype), dtype)
    return totals | {"embedding": embedding, "label_bias": bias}, of_queries


def _add_biases(bias: RowBias, totals, scores, start):
    """Sums with the gradients of the biases of windows and of the keys beside."""
    # All blocks have the same window bias: [b, h, C, w, q] -> [b, h, w, q].
    window = bias.window_gradient(scores[0].sum(axis=2))
    totals = totals | {"bias": totals["bias"] + window}
    if bias.side is not None:
        # [b, h, C, g, q] -> [b, h, g, C * q].
        ds = blocking.unblock(jnp.moveaxis(scores[1], 3, 2), 3)
        totals["side_bias"] = bias.side.add_gradient(totals["side_bias"], ds, start)
    return totals


def _vjp_backward(options, saved, d_output):
    inputs, output, lse = saved
    x = _Inputs(*inputs)
    zeros = _no_gradients(x, accumulation_dtype(x.query.dtype))
    add = functools.partial(_add_chunk, options, x, (output, lse, d_output))
    total, dq = blocking.each_step(add, zeros, _count(options, x.query))
    d_table = d_bias = None
    if x.table is not None:
        d_table = type(x.table)(
            total["embedding"].astype(x.table.embedding.dtype),
            total["label_bias"].astype(x.table.bias.dtype),
        )
    if x.bias is not None:
        d_bias = _bias_gradient(options, x.bias, total)
    of_keys = (
        total[name].astype(getattr(x, name).dtype)
        for name in ("key", "value", "side_key", "side_value")
    )
    return (blocking.join_steps(dq, 2), *of_keys, d_table, d_bias, None, None)


def _bias_gradient(options, bias: RowBias, total: dict[str, Array]) -> RowBias:
    # `ds` is of the scores, before the scale; a bias is added after it.
    side = None
    if bias.side is not None:
        rows = summed_to(total["side_bias"], bias.side.rows.shape) / options.scale
        side = SideBias(rows.astype(bias.side.rows.dtype), None)
    window = summed_to(total["bias"].sum(axis=0), bias.window.shape) / options.scale
    return RowBias(window.astype(bias.window.dtype), side)


long_rows.defvjp(_vjp_forward, _vjp_backward)
