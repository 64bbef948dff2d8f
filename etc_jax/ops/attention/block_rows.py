"""The blocks of BigBird between the first and the last, some at a time.

What a block sees comes in parts of one softmax: the three blocks around it, which are
slices; the two ends of the sequence, which are the same for all; and blocks that were
drawn, which are gathered. The logits of the whole input never exist at once; the
backward pass works them out again from the log-sum-exp.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking
from etc_jax.ops.attention.softmax import (
    MASKED,
    Draws,
    Options,
    accumulation_dtype,
    dot,
    finish,
    row_deltas,
    score_gradients,
)

Array = jax.Array

# Blocks around a block, itself among them.
_BAND = 3


class Blocks(NamedTuple):
    """What the pairs of blocks are judged by.

    Attributes:
      example: int `[b, places]`; 0 is padding.
      drawn: int `[h, inner, r]`, blocks that each inner block sees besides.
    """

    example: Array
    drawn: Array


class _Part(NamedTuple):
    """Keys of a step that all its blocks see in one way.

    Attributes:
      key, value: `[b, h, C, w, d]`, or `[b, h, w, d]` if they are the same for all.
      mask: bool `[b, h or 1, C, w, q]`.
    """

    key: Array
    value: Array
    mask: Array

    @property
    def letters(self) -> str:
        return "bhcwd" if self.key.ndim == 5 else "bhwd"


def _blocked(x: Array, size: int, axis: int) -> Array:
    return blocking.blocks(x, x.shape[axis] // size, axis)


class _Inputs(NamedTuple):
    """Everything by blocks, inner ones padded to whole steps.

    Attributes:
      key, value: `[b, h, blocks + padding, s, d]`.
      example: `[b, blocks + padding, s]`.
      drawn: `[h, inner + padding, r]`.
      count: of all blocks.
    """

    key: Array
    value: Array
    example: Array
    drawn: Array
    count: int

    @classmethod
    def make(cls, options: Options, key, value, blocks: Blocks) -> _Inputs:
        count = key.shape[2] // options.block_size
        extra = -(count - 2) % options.chunk_blocks
        pad = functools.partial(blocking.pad_axis, before=0, after=extra)
        return cls(
            pad(_blocked(key, options.block_size, 2), axis=2),
            pad(_blocked(value, options.block_size, 2), axis=2),
            pad(_blocked(blocks.example, options.block_size, 1), axis=1),
            pad(blocks.drawn, axis=1),
            count,
        )

    @property
    def steps(self) -> int:
        return self.drawn.shape[1]

    def ends(self, x: Array, axis: int) -> Array:
        """The first and the last block as one row."""
        both = jnp.asarray([0, self.count - 1])
        return blocking.unblock(jnp.take(x, both, axis=axis), axis)

    def drawn_ids(self, options: Options, index) -> Array:
        """`[h, C, r]` of a step."""
        size = options.chunk_blocks
        return blocking.slice_axis(self.drawn, index * size, size, 1)


def _taken(x: Array, ids: Array) -> Array:
    """`[b, h, blocks, s, d]` at `[h, C, r]` -> `[b, h, C, r * s, d]`."""
    h, c, r = ids.shape
    b, size, d = x.shape[0], x.shape[3], x.shape[4]
    taken = x[:, jnp.arange(h)[:, None], ids.reshape(h, -1)]
    return taken.reshape(b, h, c, r * size, d)


def _step_queries(options: Options, inputs: _Inputs, index):
    """(first inner block of a step, examples of its queries `[b, 1, C, 1, q]`)."""
    first = 1 + index * options.chunk_blocks
    q = blocking.slice_axis(inputs.example, first, options.chunk_blocks, 1)
    return first, q[:, None, :, None, :]


def _parts(options: Options, inputs: _Inputs, index) -> list[_Part]:
    """What the blocks of a step see: three of the band, the ends, the drawn."""
    size, count = options.chunk_blocks, inputs.count
    first, q_example = _step_queries(options, inputs, index)
    # Number of each block, `[1, 1, C, 1, 1]`.
    own = (first + jnp.arange(size))[None, None, :, None, None]
    real = own < count - 1

    def same(example):
        """`[b, h or 1, C or 1, w]` of keys with the queries."""
        k = example[..., None]
        return (k == q_example) & (k > 0)

    parts = []
    for step in range(-1, _BAND - 1):
        k, v = (
            blocking.slice_axis(x, first + step, size, 2)
            for x in (inputs.key, inputs.value)
        )
        example = blocking.slice_axis(inputs.example, first + step, size, 1)
        parts.append(_Part(k, v, same(example[:, None]) & real))
    # An end that is in the band is not seen a second time.
    ends = inputs.ends(inputs.example, 1)
    block = jnp.repeat(jnp.asarray([0, count - 1]), options.block_size)
    far = jnp.abs(own - block[None, None, None, :, None]) > 1
    parts.append(
        _Part(
            inputs.ends(inputs.key, 2),
            inputs.ends(inputs.value, 2),
            same(ends[:, None, None]) & real & far,
        )
    )
    if inputs.drawn.shape[2]:
        ids = inputs.drawn_ids(options, index)
        h, c, r = ids.shape
        example = inputs.example[:, ids].reshape(-1, h, c, r * options.block_size)
        parts.append(
            _Part(
                _taken(inputs.key, ids), _taken(inputs.value, ids), same(example) & real
            )
        )
    return parts


def _logits(options: Options, part: _Part, q: Array, dtype) -> Array:
    """`[b, h, C, w, q]`."""
    scores = dot(f"{part.letters},bhcqd->bhcwq", part.key, q, dtype)
    return jnp.where(part.mask, scores * options.scale, MASKED)


def _factors(options: Options, draws: Draws | None, index, logits):
    """Dropout factors of each part, the same in both passes."""
    if draws is None:
        return [None] * len(logits)
    start = index * options.chunk_blocks
    return [
        draws.stream(i).factors(options, start, x.shape, 2, x.dtype)
        for i, x in enumerate(logits)
    ]


def _inner(options: Options, x: Array) -> Array:
    """Rows of inner blocks, `[b, h, steps * C, s, ...]`, of `[b, h, places, ...]`."""
    x = _blocked(x, options.block_size, 2)[:, :, 1:-1]
    return blocking.pad_axis(x, 2, 0, -x.shape[2] % options.chunk_blocks)


def _outer(options: Options, x: Array, count: int) -> Array:
    """The inverse of `_inner`, with zeros at the ends."""
    x = blocking.pad_axis(x[:, :, : count - 2], 2, 1, 1)
    return blocking.unblock(x, 2)


def _cut(options: Options, index, x: Array) -> Array:
    size = options.chunk_blocks
    return blocking.slice_axis(x, index * size, size, 2)


def _forward(options, query, key, value, blocks, draws):
    dtype = accumulation_dtype(query.dtype)
    inputs = _Inputs.make(options, key, value, blocks)
    queries = _inner(options, query)

    def body(carry, index):
        q = _cut(options, index, queries)
        parts = _parts(options, inputs, index)
        logits = [_logits(options, part, q, dtype) for part in parts]
        top = functools.reduce(jnp.maximum, [x.max(-2) for x in logits])
        total, acc = 0, 0
        factors = _factors(options, draws, index, logits)
        for part, x, factor in zip(parts, logits, factors, strict=True):
            weights = jnp.exp(x - top[..., None, :])
            total += weights.sum(-2)
            if factor is not None:
                weights = weights * factor
            acc += dot(f"bhcwq,{part.letters}->bhcqd", weights, part.value, dtype)
        output, lse = finish(acc, total, top)
        return carry, (output.astype(query.dtype), lse)

    steps = inputs.steps // options.chunk_blocks
    _, (output, lse) = blocking.each_step(body, (), steps)
    # By blocks still: `[steps, b, h, C, s, ...]`.
    join = functools.partial(_join, count=inputs.count, options=options)
    return join(output), join(lse)


def _join(x: Array, count: int, options: Options) -> Array:
    """Steps `[steps, b, h, C, s, ...]` -> `[b, h, places, ...]`."""
    return _outer(options, blocking.unblock(jnp.moveaxis(x, 0, 2), 2), count)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def block_rows(options, query, key, value, blocks, draws):
    """Attention of the inner blocks.

    Args:
      options: static choices.
      query: `[b, h, n, d]`, n three blocks or more.
      key: likewise.
      value: likewise.
      blocks: of the sequence.
      draws: of attention dropout, or None.

    Returns:
      `[b, h, n, d]` in the dtype of `query`; zeros in the first and the last block and
      in rows that see nothing.
    """
    return _forward(options, query, key, value, blocks, draws)[0]


def _vjp_forward(options, query, key, value, blocks, draws):
    output, lse = checkpoint_name(
        _forward(options, query, key, value, blocks, draws), "attention"
    )
    return output, (query, key, value, blocks, draws, output, lse)


def _vjp_backward(options, saved, d_output):
    query, key, value, blocks, draws, output, lse = saved
    dtype = accumulation_dtype(query.dtype)
    inputs = _Inputs.make(options, key, value, blocks)
    delta = row_deltas(output, d_output, dtype)[..., 0, :]
    rows = [_inner(options, x) for x in (query, d_output, lse, delta)]
    heads = jnp.arange(query.shape[1])[:, None]

    def add(total, index, i, gradient):
        """Adds the gradient of part `i` where its keys came from."""
        first = 1 + index * options.chunk_blocks
        if i < _BAND:
            start = first + i - 1
            old = blocking.slice_axis(total, start, options.chunk_blocks, 2)
            return jax.lax.dynamic_update_slice_in_dim(total, old + gradient, start, 2)
        if i == _BAND:
            both = jnp.asarray([0, inputs.count - 1])
            return total.at[:, :, both].add(blocking.blocks(gradient, 2, 2))
        ids = inputs.drawn_ids(options, index)
        h, c, r = ids.shape
        parts = gradient.reshape(*gradient.shape[:2], c * r, -1, gradient.shape[-1])
        return total.at[:, heads, ids.reshape(h, -1)].add(parts)

    def body(carry, index):
        q, do, lse, delta = (_cut(options, index, x) for x in rows)
        lse, delta = lse[..., None, :], delta[..., None, :]
        parts = _parts(options, inputs, index)
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
        return (d_keys, d_values), dq.astype(query.dtype)

    zeros = [jnp.zeros(x.shape, dtype) for x in (inputs.key, inputs.value)]
    steps = inputs.steps // options.chunk_blocks
    totals, dq = blocking.each_step(body, tuple(zeros), steps)
    d_key, d_value = (
        blocking.unblock(x[:, :, : inputs.count], 2).astype(of.dtype)
        for x, of in zip(totals, (key, value), strict=True)
    )
    return _join(dq, inputs.count, options), d_key, d_value, None, None


block_rows.defvjp(_vjp_forward, _vjp_backward)
