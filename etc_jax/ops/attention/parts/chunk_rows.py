"""Attention of chunks over the chunks around them, in rounds of any order.

A round puts the tokens in an order and cuts it into chunks; a query sees its own chunk
and some before and after it, over the borders of rounds, in one circle (Kitaev et al.
2020, section 2). One softmax goes over the keys of all rounds. Tokens are gathered into
their places and back, so that no gradient is ever scattered: each gather's transpose is
the gather by the inverse order. Chunks are worked on some at a time, so that the logits
of the whole input never exist at once; the backward pass recomputes them from the
log-sum-exp.
"""

# One file: the forward and the backward pass share every layout.

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.chunk_dense import SELF
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


@dataclasses.dataclass(frozen=True)
class ChunkOptions(SoftmaxOptions):
    """Static choices; hashable. A block is a chunk.

    Attributes:
      before: chunks before its own that a query looks at.
      after: chunks after it.
      causal: no key after the query.
      mask_self: a token sees itself only where there is nothing else.
      count_once: a key that is met in several rounds counts once.
      rounded: the weights of a token that sees only itself are rounded as float32
        rounds beside `SELF`; see `lsh.ROUNDINGS`.
    """

    before: int = 1
    after: int = 0
    causal: bool = False
    mask_self: bool = False
    count_once: bool = False
    rounded: bool = False


class Order(NamedTuple):
    """Rounds of orders, the same for all heads or not.

    Attributes:
      example_ids: int32 `[b, n]`, by token; 0 is padding.
      order: int32 `[b, h or 1, rounds, n]`: the token at each place; None: one round,
        in which tokens stand as they come.
      inverse: int32, the place of each token: the inverse of `order`.
    """

    example_ids: Array
    order: Array | None = None
    inverse: Array | None = None

    @property
    def rounds(self) -> int:
        return 1 if self.order is None else self.order.shape[2]

    @property
    def num_places(self) -> int:
        return self.rounds * self.example_ids.shape[1]

    def tokens(self) -> Array:
        """int32 `[b or 1, h or 1, places]`, all rounds in a row."""
        if self.order is None:
            return jnp.arange(self.num_places, dtype=jnp.int32)[None, None]
        return blocking.unblock(self.order, 2)

    def sorted(self, x: Array) -> Array:
        """By token `[b, h, n, ...]` -> by place `[b, h, places, ...]`."""
        return x if self.order is None else _take(x, self.tokens())

    def sorted_rounds(self, x: Array) -> Array:
        """By token, for each round `[rounds, b, h, n]` -> by place `[b, h, places]`."""
        if self.order is None:
            return x[0]
        # Round by round: [b, h, n] at [b, h or 1, n] -> [b, h, n].
        parts = [_take(x[r], self.order[:, :, r]) for r in range(self.rounds)]
        return jnp.concatenate(parts, axis=2)

    def unsorted(self, x: Array) -> list[Array]:
        """By place -> by token, `[b, h, n, ...]` for each round."""
        if self.order is None:
            return [x]
        parts = blocking.blocks(x, self.rounds, 2)
        # [b, h, rounds, n, ...] by place, each round gathered by its inverse order.
        return [
            _take(parts[:, :, r], self.inverse[:, :, r]) for r in range(self.rounds)
        ]

    def summed(self, x: Array) -> Array:
        """By place `[b, h, places, ...]` -> by token: the transpose of `sorted`."""
        return sum(self.unsorted(x))


class _Keys(NamedTuple):
    """What is looked at, by place: of all rounds, and around them.

    Attributes:
      key, value: `[b, h, places, d]`.
      token, example: int32 `[b, h or 1, places]`.
      chunks: int32 `[b, h or 1, places, rounds]`, the chunk of a key's token in each
        round; None unless `count_once`.
    """

    key: Array
    value: Array
    token: Array
    example: Array
    chunks: Array | None


class _Queries(NamedTuple):
    """Like `_Keys`."""

    query: Array
    token: Array
    example: Array
    chunks: Array | None


def _take(x: Array, index: Array) -> Array:
    """`[b, h or 1, n, ...]` at int `[b, h or 1, m]` -> `[b, h, m, ...]`."""
    # [b, h or 1, m] -> [b, h or 1, m, 1, ...].
    index = index.reshape(*index.shape, *(1,) * (x.ndim - 3))
    return jnp.take_along_axis(x, index, axis=2, mode="promise_in_bounds")


# --- a circle of places ---------------------------------------------------------------


def _circle(options: ChunkOptions, x: Array) -> Array:
    """Places with what is looked at before the first and after the last of them.

    After that, zeros up to a whole number of steps.
    """
    length = x.shape[2]
    # A look may reach around the circle more than once: whole turns, and a rest.
    ahead, before = divmod(options.before * options.block_size, length)
    turns, after = divmod(options.after * options.block_size, length)
    parts = [x[:, :, length - before :], *[x] * (ahead + 1 + turns), x[:, :, :after]]
    x = jnp.concatenate(parts, axis=2)
    return blocking.pad_axis(x, 2, 0, _missing(options, length))


def _uncircle(options: ChunkOptions, x: Array, length: int) -> Array:
    """The transpose of `_circle`: each place gets what all its copies got."""
    before = options.before * options.block_size
    stop = before + length + options.after * options.block_size
    total = jnp.zeros_like(x, shape=(*x.shape[:2], length, *x.shape[3:]))
    start = before % length - length  # of the first whole copy, after the padding
    while start < stop:
        # A copy that the looks cut short is filled up with zeros to a whole one.
        first, last = max(start, 0), min(start + length, stop)
        if last > first:
            part = jax.lax.slice_in_dim(x, first, last, axis=2)
            total += blocking.pad_axis(part, 2, first - start, start + length - last)
        start += length
    return total


def _missing(options: ChunkOptions, length: int) -> int:
    """Places that make `length` a whole number of steps."""
    return -length % (options.block_size * options.chunk_blocks)


def _inputs(options, query, key, value, order: Order) -> tuple[_Queries, _Keys]:
    tokens, chunks = order.tokens(), None
    example = _take(order.example_ids[:, None], tokens)
    if options.count_once:
        # Chunk of each token in each round, [b, h, rounds, n], then by place: [b, h,
        # places, rounds].
        round_ = jax.lax.broadcasted_iota(jnp.int32, order.inverse.shape, 2)
        slot = round_ * order.example_ids.shape[1] + order.inverse
        chunk = slot // options.block_size
        chunks = _take(jnp.moveaxis(chunk, 2, 3), tokens)
    queries = _Queries(order.sorted(query), tokens, example, chunks)
    keys = _Keys(order.sorted(key), order.sorted(value), tokens, example, chunks)

    def whole(x):
        return blocking.pad_axis(x, 2, 0, _missing(options, x.shape[2]))

    circle = functools.partial(_circle, options)
    return jax.tree.map(whole, queries), jax.tree.map(circle, keys)


# --- one step: some chunks ------------------------------------------------------------


def _cut_queries(options: ChunkOptions, index, x):
    """`[b, h, places, ...]` -> the chunks of a step, `[b, h, C, q, ...]`."""
    size = options.chunk_blocks * options.block_size
    part = blocking.slice_axis(x, index * size, size, 2)
    return blocking.blocks(part, options.chunk_blocks, 2)


def _starts(options: ChunkOptions, index) -> list[Array]:
    """Where what a step looks at starts: the first chunk of each query, the second."""
    # `_circle` has `before` chunks in front: chunk i's first look is at place i * c.
    first = index * options.chunk_blocks
    looks = options.before + 1 + options.after
    return [(first + i) * options.block_size for i in range(looks)]


def _cut_keys(options: ChunkOptions, index, keys: _Keys) -> list[_Keys]:
    """`[b, h, places, ...]` -> what they look at, `[b, h, C, c, ...]` for each look.

    Never side by side in one array: the copy would cost as much as a product.
    """
    size = options.chunk_blocks * options.block_size

    def cut(start, x):
        part = blocking.slice_axis(x, start, size, 2)
        return blocking.blocks(part, options.chunk_blocks, 2)

    return [
        jax.tree.map(functools.partial(cut, start), keys)
        for start in _starts(options, index)
    ]


def _logits(options, q: _Queries, k: _Keys, num_chunks: int, dtype, self_logit=SELF):
    """Of one look, `[b, h, C, c, q]`: keys are rows, queries columns."""
    # Keys [..., c, 1] with queries [..., 1, q]: [b or 1, h or 1, C, c, q].
    token = k.token[..., :, None], q.token[..., None, :]
    example = k.example[..., :, None], q.example[..., None, :]
    seen = (example[0] == example[1]) & (example[0] > 0)
    if options.causal:
        seen &= token[0] <= token[1]
    logits = dot("bhcwd,bhcqd->bhcwq", k.key, q.query, dtype) * options.scale
    if options.count_once:
        # A key is in the softmax once for each meeting: less the logarithm of their
        # number, all its copies together weigh as one key.
        met = _meetings(options, q.chunks, k.chunks, num_chunks)
        logits -= jnp.log(jnp.maximum(met, 1).astype(dtype))
    if options.mask_self:
        # All copies of a token are met equally often by it: they need no count.
        logits = jnp.where(token[0] == token[1], self_logit, logits)
    return jnp.where(seen, logits, MASKED)


def _meetings(options: ChunkOptions, q: Array, k: Array, num_chunks: int) -> Array:
    """How often each pair meets in all rounds.

    A chunk looks at places of its own round, and at the edges of the one before or
    after, as far as it looks.

    Args:
      options: static choices.
      q: int `[..., q, rounds]`, the chunk of each query in each round.
      k: int `[..., w, rounds]`, of each key.
      num_chunks: of all rounds.
    """
    rounds = q.shape[-1]
    count = 0
    for query_round in range(rounds):
        for key_round in range(rounds):
            # Chunks from query to key, [..., w, q].
            far = k[..., :, None, key_round] - q[..., None, :, query_round]
            for step in range(-options.before, options.after + 1):
                if step == 0 and query_round != key_round:
                    continue  # no chunk is of two rounds
                count += ((far - step) % num_chunks == 0).astype(jnp.int32)
    return count


def _factors(options: ChunkOptions, draws: Draws | None, index, logits: list[Array]):
    """Dropout factors of each look, drawn as one, the same in both passes."""
    if draws is None:
        return [None] * len(logits)
    start, (*lead, c, q) = index * options.chunk_blocks, logits[0].shape
    shape = (*lead, c * len(logits), q)
    factors = draws.factors(options.dropout_rate, start, shape, 2, logits[0].dtype)
    # [b, h, C, looks * c, q] -> [b, h, C, c, q] for each look.
    return jnp.split(factors, len(logits), axis=-2)


# --- all of them ----------------------------------------------------------------------


def _steps(options: ChunkOptions, order: Order) -> int:
    return -(-order.num_places // (options.chunk_blocks * options.block_size))


def _forward(options, query, key, value, order, draws):
    dtype = accumulation_dtype(query.dtype)
    queries, keys = _inputs(options, query, key, value, order)
    num_chunks = order.num_places // options.block_size

    def body(carry, index):
        q = jax.tree.map(functools.partial(_cut_queries, options, index), queries)
        looks = _cut_keys(options, index, keys)
        logits = [_logits(options, q, k, num_chunks, dtype) for k in looks]
        # One softmax for all looks of a round: a common maximum, [b, h, C, q].
        top = functools.reduce(jnp.maximum, [x.max(-2) for x in logits])
        total, acc = 0, 0
        factors = _factors(options, draws, index, logits)
        for k, x, factor in zip(looks, logits, factors, strict=True):
            weights = jnp.exp(x - top[..., None, :])
            total += weights.sum(-2)
            if factor is not None:
                weights = weights * factor
            # [b, h, C, c, q] x [b, h, C, c, d] -> [b, h, C, q, d].
            acc += dot("bhcwq,bhcwd->bhcqd", weights, k.value, dtype)
        output, _ = finish(acc, total, top)
        return carry, (output.astype(query.dtype), top, total)

    _, parts = blocking.each_step(body, (), _steps(options, order))
    # [steps, b, h, C, q, ...] -> [b, h, places, ...] -> [b, h, n, ...] for each round.
    by_round = (
        order.unsorted(blocking.join_steps(x, 2)[:, :, : order.num_places])
        for x in parts
    )
    return _one_softmax(options, *map(jnp.stack, by_round))


class _Rows(NamedTuple):
    """What the backward pass needs of the rows of a softmax.

    A token that sees only itself is taken to have a logit near 0 for that, as digits
    would be lost beside `SELF`.

    Attributes:
      lse: log-sum-exp `[b, h, n]`; +1e30 for a row that sees nothing.
      self_logit: a token's logit for itself, `[rounds or 1, b, h, n]`.
    """

    lse: Array
    self_logit: Array


def _one_softmax(options, output, top, total) -> tuple[Array, _Rows]:
    """The rounds as one softmax.

    Args:
      options: static choices.
      output: `[rounds, b, h, n, d]`, of each round's softmax.
      top: `[rounds, b, h, n]`, its largest logit, `MASKED` if there is none.
      total: `[rounds, b, h, n]`, its sum of exp(logit - top).
    """
    highest = jnp.max(top, axis=0, keepdims=True)
    # Alone: the largest logit is that of the token for itself, `SELF`.
    seen, alone = highest > MASKED / 2, highest <= SELF / 2
    weights = jnp.where(seen, jnp.exp(top - highest) * total, 0)
    # 1 where nothing is seen: weights of 0 then give zeros, not 0 / 0.
    sum_ = jnp.where(seen, jnp.sum(weights, axis=0, keepdims=True), 1)
    weights, lse = weights / sum_, jnp.log(sum_) + jnp.where(alone, 0, highest)
    # Left out of a lone token's lse as well: beside `SELF`, digits would be lost.
    self_logit = jnp.where(alone, 0, SELF)
    if options.rounded:
        share = _rounded_shares(total)
        # A round shows `total` copies of the token, each with the weight exp(share).
        weights = jnp.where(alone & seen, total * jnp.exp(share), weights)
        self_logit, lse = jnp.where(alone, share, SELF), jnp.where(alone, 0, lse)
    # No reduction: over an axis this short it took half of a pass on CPU.
    joined = sum(w[..., None] * x for w, x in zip(weights, output, strict=True))
    rows = _Rows(jnp.where(seen, lse, -MASKED)[0], self_logit)
    return joined.astype(output.dtype), rows


def _rounded_shares(total: Array) -> Array:
    """Log of the weight of each of a token's copies, if there is nothing else to see.

    Args:
      total: `[rounds, b, h, n]`, how many copies a round shows.
    """
    # The barrier keeps a compiler from finding out that `SELF` cancels.
    self_logit = jax.lax.optimization_barrier(jnp.asarray(SELF, total.dtype))
    lse = self_logit + jnp.log(total)
    all_rounds = jax.nn.logsumexp(lse, axis=0, keepdims=True)
    return (self_logit - lse) + (lse - all_rounds)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def chunk_rows(options, query, key, value, order, draws):
    """Attention of each token over the chunks that it meets.

    Args:
      options: static choices.
      query: `[b, h, n, d]`, n a whole number of chunks.
      key: `[b, h, n, d]`, n a whole number of chunks.
      value: `[b, h, n, d]`, n a whole number of chunks.
      order: of the tokens in each round.
      draws: of attention dropout, or None.

    Returns:
      `[b, h, n, d]` in the dtype of `query`; rows that see nothing are zero.
    """
    return _forward(options, query, key, value, order, draws)[0]


def _vjp_forward(options, query, key, value, order, draws):
    output, rows = checkpoint_name(
        _forward(options, query, key, value, order, draws), "attention"
    )
    return output, (query, key, value, order, draws, output, rows)


def _vjp_backward(options, saved, d_output):
    query, key, value, order, draws, output, rows = saved
    dtype = accumulation_dtype(query.dtype)
    queries, keys = _inputs(options, query, key, value, order)
    c = options.block_size
    num_chunks = order.num_places // c
    delta = row_deltas(output, d_output, dtype)[..., 0, :]

    self_logit = jnp.broadcast_to(
        rows.self_logit, (order.rounds, *rows.self_logit.shape[1:])
    )
    # By place, to whole steps: [b, h, places, d] and [b, h, places]. Padding has an
    # lse of 0, and masked logits: exp(MASKED - 0) is 0.
    rows = [order.sorted(x) for x in (d_output, rows.lse, delta)]
    rows.append(order.sorted_rounds(self_logit))
    rows = [blocking.pad_axis(x, 2, 0, _missing(options, x.shape[2])) for x in rows]

    def add_at(total, start, chunks):
        part = blocking.unblock(chunks, 2)
        old = blocking.slice_axis(total, start, part.shape[2], 2)
        return jax.lax.dynamic_update_slice_in_dim(total, old + part, start, 2)

    def body(carry, index):
        cut = functools.partial(_cut_queries, options, index)
        q, (do, lse, delta, self_logit) = jax.tree.map(cut, (queries, rows))
        lse, delta, self_logit = (x[..., None, :] for x in (lse, delta, self_logit))
        looks = _cut_keys(options, index, keys)
        logits = [_logits(options, q, k, num_chunks, dtype, self_logit) for k in looks]
        factors = _factors(options, draws, index, logits)
        (d_keys, d_values), dq = carry, 0
        for k, x, factor, start in zip(
            looks, logits, factors, _starts(options, index), strict=True
        ):
            dp = dot("bhcwd,bhcqd->bhcwq", k.value, do, dtype)
            p, ds = score_gradients(x, lse, factor, dp, delta, options.scale)
            if options.mask_self:
                # The logit of a token for itself is a constant.
                ds = jnp.where(k.token[..., :, None] == q.token[..., None, :], 0, ds)
            d_key = dot("bhcwq,bhcqd->bhcwd", ds, q.query, dtype)
            d_value = dot("bhcwq,bhcqd->bhcwd", p, do, dtype)
            d_keys = add_at(d_keys, start, d_key)
            d_values = add_at(d_values, start, d_value)
            dq += dot("bhcwq,bhcwd->bhcqd", ds, k.key, dtype)
        return (d_keys, d_values), dq.astype(query.dtype)

    zeros = [jnp.zeros(x.shape, dtype) for x in (keys.key, keys.value)]
    totals, dq = blocking.each_step(body, tuple(zeros), _steps(options, order))
    # [b, h, places, d]; totals are of the circle, with all copies of a place.
    by_place = [
        blocking.join_steps(dq, 2)[:, :, : order.num_places],
        *(_uncircle(options, x, order.num_places) for x in totals),
    ]
    gradients = [
        order.summed(x.astype(dtype)).astype(of.dtype)
        for x, of in zip(by_place, (query, key, value), strict=True)
    ]
    return (*gradients, None, None)


chunk_rows.defvjp(_vjp_forward, _vjp_backward)
