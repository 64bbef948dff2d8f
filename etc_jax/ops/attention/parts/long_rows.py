"""Long queries: one softmax over the local window and all global tokens (l2l + l2g).

Long rows are cut into blocks; a block of q rows with radius r sees an exact window of
q + 2r long keys, which overlapping slices give without gathers or third blocks
(paper, section 3.2 and appendix A). Window and global logits are two arrays with a
common maximum and sum; keys are never concatenated. Chunks of blocks run one after
the other, so the logits of the whole input never exist at once; the backward pass
recomputes them from the saved log-sum-exp.
"""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking
from etc_jax.ops.attention.bias import RowBias, SideBias, summed_to
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
    output, lse = _forward(options, *inputs)
    output = checkpoint_name(output, "attention")
    lse = checkpoint_name(lse, "attention")
    return output, (inputs, output, lse)


def _vjp_backward(options, saved, d_output):
    inputs, output, lse = saved
    query, key, value, side_key, side_value, table, bias, pairs, draws = inputs
    dtype = accumulation_dtype(query.dtype)
    has_side = side_key.shape[2] > 0
    size = options.chunk_blocks * options.block_size

    def rows(x, start):
        part = blocking.slice_axis(x, start, size, 2)
        return blocking.blocks(part, options.chunk_blocks, 2)

    def add_window(total, windows, start):
        return blocking.add_windows(total, windows, options.block_size, start, 2)

    def body(carry, index):
        start, q, k, v = _chunk(options, pairs, index, (query, key, value))
        parts = _logits(options, pairs, start, q, k, side_key, table, bias, dtype)
        factors = _factors(options, draws, index, parts, dtype)
        do = rows(d_output, start)
        # [b, h, C, q] -> [b, h, C, 1, q], a row beside the keys.
        row_lse = rows(lse, start)[..., None, :]
        row_delta = row_deltas(rows(output, start), do, dtype)

        # (p after dropout, ds), [b, h, C, w or g, q].
        def part_gradients(part, factor, to_weights, values):
            dp = dot(to_weights, values, do, dtype)
            return score_gradients(
                part[0], row_lse, factor, dp, row_delta, options.scale
            )

        p, ds = part_gradients(parts[0], factors[0], "bhcwd,bhcqd->bhcwq", v)
        carry = dict(carry)
        # [b, h, C, w, d], summed where the windows overlap.
        carry["value"] = add_window(
            carry["value"], dot("bhcwq,bhcqd->bhcwd", p, do, dtype), start
        )
        carry["key"] = add_window(
            carry["key"], dot("bhcwq,bhcqd->bhcwd", ds, q, dtype), start
        )
        dq = dot("bhcwq,bhcwd->bhcqd", ds, k, dtype)
        blocks_ds = [ds]
        if has_side:
            p, ds = part_gradients(
                parts[1], factors[1], "bhgd,bhcqd->bhcgq", side_value
            )
            carry["side_value"] += dot("bhcgq,bhcqd->bhgd", p, do, dtype)
            carry["side_key"] += dot("bhcgq,bhcqd->bhgd", ds, q, dtype)
            dq += dot("bhcgq,bhgd->bhcqd", ds, side_key, dtype)
            blocks_ds.append(ds)
        if table is not None:
            # Both parts read one table: [b, h, C, V, q].
            dt = sum(
                labels.gradient(block, table.bias.shape[0])
                for block, (_, labels) in zip(blocks_ds, parts, strict=True)
                if labels is not None
            )
            carry["embedding"] += dot("bhcvq,bhcqd->vhd", dt, q, dtype)
            # [b, h, C, V, q] -> [h, V] -> [V, h].
            carry["label_bias"] += jnp.sum(dt, axis=(0, 2, 4)).T
            dq += dot("bhcvq,vhd->bhcqd", dt, table.embedding.astype(q.dtype), dtype)
        if bias is not None:
            # All blocks have the same window bias: [b, h, C, w, q] -> [b, h, w, q].
            carry["bias"] += bias.window_gradient(blocks_ds[0].sum(axis=2))
            if bias.side is not None:
                # [b, h, C, g, q] -> [b, h, g, C * q].
                side = blocking.unblock(jnp.moveaxis(blocks_ds[1], 3, 2), 3)
                carry["side_bias"] = bias.side.add_gradient(
                    carry["side_bias"], side, start
                )
        return carry, dq.astype(query.dtype)

    zeros = {
        "key": jnp.zeros(key.shape, dtype),
        "value": jnp.zeros(value.shape, dtype),
        "side_key": jnp.zeros(side_key.shape, dtype),
        "side_value": jnp.zeros(side_value.shape, dtype),
    }
    if table is not None:
        zeros["embedding"] = jnp.zeros(table.embedding.shape, dtype)
        zeros["label_bias"] = jnp.zeros(table.bias.shape, dtype)
    if bias is not None:
        # The batch is summed at last, so that its devices do it once.
        zeros["bias"] = jnp.zeros((*query.shape[:2], bias.window.shape[-1]), dtype)
        if bias.side is not None:
            zeros["side_bias"] = bias.side.no_gradient(dtype)
    total, dq = blocking.each_step(body, zeros, _count(options, query))
    d_table = None
    if table is not None:
        d_table = type(table)(
            total["embedding"].astype(table.embedding.dtype),
            total["label_bias"].astype(table.bias.dtype),
        )
    d_bias = None
    if bias is not None:
        # `ds` is of the scores, before the scale; a bias is added after it.
        side = None
        if bias.side is not None:
            rows_of = summed_to(total["side_bias"], bias.side.rows.shape)
            rows_of = (rows_of / options.scale).astype(bias.side.rows.dtype)
            side = SideBias(rows_of, None)
        window = summed_to(total["bias"].sum(axis=0), bias.window.shape) / options.scale
        d_bias = RowBias(window.astype(bias.window.dtype), side)
    return (
        blocking.join_steps(dq, 2),
        total["key"].astype(key.dtype),
        total["value"].astype(value.dtype),
        total["side_key"].astype(side_key.dtype),
        total["side_value"].astype(side_value.dtype),
        d_table,
        d_bias,
        None,
        None,
    )


long_rows.defvjp(_vjp_forward, _vjp_backward)
