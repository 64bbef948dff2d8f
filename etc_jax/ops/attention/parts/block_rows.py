"""The sparse blocks that do not see everything, some at a time.

`block_parts` gives what they see. The logits of the whole input never exist at
once; the backward pass works them out again from the log-sum-exp.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.block_parts import (
    BlockOptions,
    Inputs,
    KeyGroup,
    add_part,
    blocked,
    parts_of,
)
from etc_jax.ops.attention.parts.dropout import Draws
from etc_jax.ops.attention.parts.softmax import (
    MASKED,
    SoftmaxOptions,
    accumulation_dtype,
    dot,
    finish,
    row_deltas,
    score_gradients,
)

Array = jax.Array


def _logits(options: SoftmaxOptions, part: KeyGroup, q: Array, dtype) -> Array:
    """`[b, h, C, w, q]`."""
    scores = dot(f"{part.letters},bhcqd->bhcwq", part.key, q, dtype)
    return jnp.where(part.mask, scores * options.scale, MASKED)


def _factors(options: SoftmaxOptions, draws: Draws | None, index, logits):
    """Dropout factors of each part, the same in both passes."""
    if draws is None:
        return [None] * len(logits)
    start = index * options.chunk_blocks
    return [
        draws.stream(i).factors(options.dropout_rate, start, x.shape, 2, x.dtype)
        for i, x in enumerate(logits)
    ]


def _inner(options: BlockOptions, x: Array) -> Array:
    """Rows of inner blocks, `[b, h, steps * C, s, ...]`, of `[b, h, places, ...]`."""
    # [b, h, blocks, s, ...] -> [b, h, inner, s, ...], then to a multiple of C.
    x = blocked(x, options.block_size, 2)[:, :, options.first : -1]
    return blocking.pad_axis(x, 2, 0, -x.shape[2] % options.chunk_blocks)


def _outer(options: BlockOptions, x: Array, count: int) -> Array:
    """The inverse of `_inner`, with zeros in all other blocks."""
    inner = count - 1 - options.first
    x = blocking.pad_axis(x[:, :, :inner], 2, options.first, 1)
    return blocking.unblock(x, 2)


def _cut(options: SoftmaxOptions, index, x: Array) -> Array:
    size = options.chunk_blocks
    return blocking.slice_axis(x, index * size, size, 2)


def _forward(options, query, key, value, blocks, draws):
    dtype = accumulation_dtype(query.dtype)
    inputs = Inputs.make(options, key, value, blocks)
    queries = _inner(options, query)

    def body(carry, index):
        q = _cut(options, index, queries)
        parts = parts_of(options, inputs, index)
        logits = [_logits(options, part, q, dtype) for part in parts]
        # All parts are one softmax: [b, h, C, q]. Less the maximum, exp is at most 1.
        top = functools.reduce(jnp.maximum, [x.max(-2) for x in logits])
        total, acc = 0, 0
        factors = _factors(options, draws, index, logits)
        for part, x, factor in zip(parts, logits, factors, strict=True):
            weights = jnp.exp(x - top[..., None, :])
            # Before dropout, which is of probabilities: it does not change their sum.
            total += weights.sum(-2)
            if factor is not None:
                weights = weights * factor
            # [b, h, C, w, q] x [b, h, C, w, d] or [b, h, w, d] -> [b, h, C, q, d].
            acc += dot(f"bhcwq,{part.letters}->bhcqd", weights, part.value, dtype)
        output, lse = finish(acc, total, top)
        return carry, (output.astype(query.dtype), lse)

    steps = inputs.steps(options)
    _, (output, lse) = blocking.each_step(body, (), steps)
    # By blocks still: `[steps, b, h, C, s, ...]`.
    join = functools.partial(_join, count=inputs.count, options=options)
    return join(output), join(lse)


def _join(x: Array, count: int, options: BlockOptions) -> Array:
    """Steps `[steps, b, h, C, s, ...]` -> `[b, h, places, ...]`."""
    return _outer(options, blocking.unblock(jnp.moveaxis(x, 0, 2), 2), count)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def block_rows(options, query, key, value, blocks, draws):
    """Attention of the inner blocks.

    Args:
      options: static choices.
      query: `[b, h, n, d]`, whole blocks, with an inner one.
      key: `[b, h, n, d]`, whole blocks, with an inner one.
      value: `[b, h, n, d]`, whole blocks, with an inner one.
      blocks: of the sequence.
      draws: of attention dropout, or None.

    Returns:
      `[b, h, n, d]` in the dtype of `query`; zeros in blocks that are not inner ones
      and in rows that see nothing.
    """
    return _forward(options, query, key, value, blocks, draws)[0]


def _vjp_forward(options, query, key, value, blocks, draws):
    output, lse = checkpoint_name(
        _forward(options, query, key, value, blocks, draws), "attention"
    )
    # The logits are not kept: from q, k and lse they are worked out again.
    return output, (query, key, value, blocks, draws, output, lse)


def _vjp_backward(options, saved, d_output):
    query, key, value, blocks, draws, output, lse = saved
    dtype = accumulation_dtype(query.dtype)
    inputs = Inputs.make(options, key, value, blocks)
    # [b, h, n].
    delta = row_deltas(output, d_output, dtype)[..., 0, :]
    rows = [_inner(options, x) for x in (query, d_output, lse, delta)]
    add = functools.partial(add_part, options, inputs)

    def body(carry, index):
        q, do, lse, delta = (_cut(options, index, x) for x in rows)
        # One row beside the keys: [b, h, C, q] -> [b, h, C, 1, q].
        lse, delta = lse[..., None, :], delta[..., None, :]
        parts = parts_of(options, inputs, index)
        logits = [_logits(options, part, q, dtype) for part in parts]
        factors = _factors(options, draws, index, logits)
        (d_keys, d_values), dq = carry, 0
        for i, (part, x, factor) in enumerate(zip(parts, logits, factors, strict=True)):
            dp = dot(f"{part.letters},bhcqd->bhcwq", part.value, do, dtype)
            p, ds = score_gradients(x, lse, factor, dp, delta, options.scale)
            to = f"bhcwq,bhcqd->{part.letters}"
            d_keys = add(d_keys, index, i, dot(to, ds, q, dtype))
            d_values = add(d_values, index, i, dot(to, p, do, dtype))
            dq += dot(f"bhcwq,{part.letters}->bhcqd", ds, part.key, dtype)
        # Each step has its own rows of dq; keys are seen in several: theirs are sums.
        return (d_keys, d_values), dq.astype(query.dtype)

    zeros = [jnp.zeros(x.shape, dtype) for x in (inputs.key, inputs.value)]
    steps = inputs.steps(options)
    totals, dq = blocking.each_step(body, tuple(zeros), steps)
    d_key, d_value = (
        blocking.unblock(x[:, :, : inputs.count], 2).astype(of.dtype)
        for x, of in zip(totals, (key, value), strict=True)
    )
    return _join(dq, inputs.count, options), d_key, d_value, None, None


block_rows.defvjp(_vjp_forward, _vjp_backward)
