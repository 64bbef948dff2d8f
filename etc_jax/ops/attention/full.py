"""Attention of every token to every token, without all logits at once.

    output = attend(query, key, value, example_ids=example_ids)

Keys come some at a time, with one running softmax (as the global rows of
`global_rows`); the backward pass works the logits out again.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention import inline_dense
from etc_jax.ops.attention.checks import (
    check_dropout_rate,
    check_implementation,
    check_rows,
)
from etc_jax.ops.attention.global_rows import global_rows
from etc_jax.ops.attention.inline_pairs import InlinePairs, Tokens
from etc_jax.ops.attention.pairs import Place
from etc_jax.ops.attention.sizes import block_sizes
from etc_jax.ops.attention.softmax import Draws, Options, dropout_factors

Array = jax.Array


class Dropout(NamedTuple):
    """Of attention probabilities.

    Attributes:
      rate: static.
      rng: key; None: no dropout.
    """

    rate: float
    rng: Array | None

    @classmethod
    def make(cls, rate: float, rng: Array | None) -> Dropout:
        """Without a key if the rate is 0.

        Raises:
          ValueError: see `check_dropout_rate`.
        """
        check_dropout_rate(rate)
        return cls(rate, rng if rate else None)

    def stream(self, number: int) -> Dropout:
        """Draws of another kind."""
        if self.rng is None:
            return self
        return self._replace(rng=jax.random.fold_in(self.rng, number))

    def draws(self, first_block) -> Draws | None:
        """For the blocked forms; `first_block` as in `Draws`."""
        if self.rng is None:
            return None
        return Draws(self.rng, jnp.asarray(first_block, jnp.int32))

    def dense(self):
        """A function of probabilities, drawn anew at each call, or None."""
        if self.rng is None:
            return None
        keys = iter(jax.random.split(self.rng))

        def drop(p):
            return p * dropout_factors(next(keys), self.rate, p.shape, p.dtype)

        return drop


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    causal: bool = False,
    example_ids: Array | None = None,
    padding_sees: bool = False,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    shards: int = 1,
) -> Array:
    """Softmax attention over the whole sequence.

    Args:
      query: `[b, n, h, d]`; scores are divided by sqrt(d).
      key: likewise.
      value: likewise.
      causal: no key behind the query.
      example_ids: int `[b, n]`; 0 is padding, which nothing sees, and packed examples
        do not see each other; None: one example.
      padding_sees: whether the rows of padding see the example of the highest number,
        as with a mask of keys alone; otherwise they are zero.
      implementation: "xla" (memory linear in n), "dense" (the oracle), "auto".
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      shards: devices that batch and heads are split over.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_implementation(implementation)
    check_rows(query, key, value, example_ids)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    b, n = query.shape[:2]
    if not n:
        return query
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    query_ids = example_ids
    if padding_sees:
        last = jnp.max(example_ids, axis=1, keepdims=True)
        query_ids = jnp.where(example_ids > 0, example_ids, last)
    if implementation == "dense":
        return inline_dense.attend(
            query,
            key,
            value,
            radius=None,
            dilation=(1,) * query.shape[2],
            causal=causal,
            example_ids=example_ids,
            query_ids=query_ids,
            globals_=None,
            dropout=dropout.dense(),
        )
    place = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (b, n))
    tokens = Tokens(example_ids, place, jnp.zeros((b, n), bool))
    return some_rows(
        query,
        key,
        value,
        tokens._replace(example=query_ids),
        tokens,
        causal=causal,
        dropout=dropout,
        shards=shards,
        place=Place(),
    )


def some_rows(
    query: Array,
    key: Array,
    value: Array,
    query_tokens: Tokens,
    tokens: Tokens,
    *,
    causal: bool,
    dropout: Dropout,
    shards: int,
    place: Place,
) -> Array:
    """Attention of some queries over the whole sequence.

    Args:
      query: `[b, g, h, d]`.
      key: `[b, n, h, d]`.
      value: likewise.
      query_tokens: of the queries, `[b, g]`.
      tokens: of the sequence, `[b, n]`.
      causal: no key behind the query.
      dropout: of probabilities.
      shards: devices that batch and heads are split over.
      place: of these n tokens in the whole sequence.

    Returns:
      `[b, g, h, d]`.
    """
    b, g, h, d = query.shape
    n = key.shape[1]
    # Blocks of keys here, and all queries in one row of each.
    size, chunks = block_sizes(n, 0, 0, b * h * -(-g // 64), shards=shards)
    options = Options(d**-0.5, size, chunks, dropout.rate)
    padded = -(-n // (size * chunks)) * size * chunks
    pairs = InlinePairs.make(tokens, query_tokens, 0, padded, causal, Place())
    keys = [
        jnp.swapaxes(blocking.pad_axis(x, 1, 0, padded - n), 1, 2) for x in (key, value)
    ]
    # Keys that stand beside the sequence: none, in the least that a softmax takes.
    none = jnp.zeros((b, h, 1, d), query.dtype)
    out, lse = global_rows(
        options,
        jnp.swapaxes(query, 1, 2),
        none,
        none,
        *keys,
        None,
        pairs,
        dropout.draws(place.first(-(-n // size))),
    )
    if place.axis_name is not None:
        out = sequence.join_softmax(out, lse, place.axis_name)
    return jnp.swapaxes(out, 1, 2)
