"""Spans that are missing from a text, chosen on the device by their losses.

Of candidate spans, those that a model finds hardest to predict are missing, and the
others are restored (Xiong et al. 2022, section 2.3). `corrupt` then makes the two sides
of span corruption (Raffel et al. 2020, section 3.1.4), as
`data.pretraining.denoising.span_corruption` does on the host.

`spans` are int `[b, n]`: k in span k = 1, 2, ... in order of place, 0 or less in all
other places. Spans do not touch. All that a row becomes is a function of the row, and
is mapped over the batch, so that the batch stays split over devices.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Sides(NamedTuple):
    """What is read and what is to be written.

    Attributes:
      input: int `[b, n]`, zeros after the text.
      input_sizes: int32 `[b]`, tokens.
      target: int `[b, m]`, zeros after the text.
      target_sizes: int32 `[b]`, tokens before what had no room was cut off.
    """

    input: jax.Array
    input_sizes: jax.Array
    target: jax.Array
    target_sizes: jax.Array


def positions_of(spans: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Where the tokens of all spans stand.

    Args:
      spans: see the module.
      count: p, at least as many as a row has such tokens.

    Returns:
      (int32 `[b, p]`, ascending and then zeros; int `[b, p]`, the span of each, 0 where
      there is none).
    """

    def row(spans):
        positions, size = _packed(jnp.arange(len(spans)), spans > 0, count)
        return positions, jnp.where(jnp.arange(count) < size, spans[positions], 0)

    return jax.vmap(row)(spans)


def span_means(losses: jax.Array, spans: jax.Array, num_spans: int) -> jax.Array:
    """The mean loss of each span.

    Args:
      losses: float `[b, p]`.
      spans: int `[b, p]`, the span of each, 0 for none.
      num_spans: s, the largest number of a span.

    Returns:
      float `[b, s]`, -inf where a row has no such span.
    """

    def row(losses, spans):
        def of_spans(x):  # [p] -> [s]; 0 is no span
            return jnp.zeros(num_spans + 1, x.dtype).at[spans].add(x)[1:]

        counts = of_spans(jnp.ones_like(losses))
        means = of_spans(losses) / jnp.maximum(counts, 1)
        return jnp.where(counts > 0, means, -jnp.inf)

    return jax.vmap(row)(losses, spans)


def hardest(means: jax.Array, counts: jax.Array) -> jax.Array:
    """The spans of the highest mean losses, of equal ones the first.

    Args:
      means: float `[b, s]`, of `span_means`.
      counts: int `[b]`, how many spans of each row; no more than it has.

    Returns:
      bool `[b, s]`.
    """

    def row(means, count):
        order = jnp.argsort(-means, stable=True)
        is_chosen = jnp.arange(len(means)) < count
        return jnp.zeros_like(is_chosen).at[order].set(is_chosen, unique_indices=True)

    return jax.vmap(row)(means, counts)


def corrupt(
    tokens: jax.Array,
    example_ids: jax.Array,
    spans: jax.Array,
    missing: jax.Array,
    sentinels: jax.Array,
    on_both: jax.Array,
    target_length: int,
) -> Sides:
    """T5's task: a missing span is a sentinel, and is to be written after it.

    Args:
      tokens: int `[b, n]`.
      example_ids: int `[b, n]`; 0 is padding, which follows the text.
      spans: see the module.
      missing: bool `[b, s]`, whether span 1, 2, ... is missing.
      sentinels: ids in order, of the type of `tokens`; at least as many as a row misses
        spans.
      on_both: bool `[b, n]`, tokens outside of spans that are written too, such as the
        first and the last one.
      target_length: m. Of a longer target there are the first tokens and the last one.
    """

    def row(tokens, example_ids, spans, missing, on_both):
        is_missing = (spans > 0) & missing[jnp.maximum(spans - 1, 0)]
        starts = is_missing & ~jnp.concatenate([jnp.zeros(1, bool), is_missing[:-1]])
        marks = sentinels[jnp.maximum(jnp.cumsum(starts) - 1, 0)]
        # Of a span its first place has the sentinel, and the others go.
        read = (example_ids > 0) & (~is_missing | starts)
        written = is_missing | on_both
        # [n, 2] -> [2 n]: the sentinel of a span comes before its first token.
        pairs = jnp.stack([marks, tokens], axis=1).ravel()
        is_written = jnp.stack([starts, written], axis=1).ravel()
        return Sides(
            *_packed(jnp.where(starts, marks, tokens), read, len(tokens)),
            *_packed(pairs, is_written, target_length),
        )

    return jax.vmap(row)(tokens, example_ids, spans, missing, on_both)


def _packed(
    values: jax.Array, taken: jax.Array, length: int
) -> tuple[jax.Array, jax.Array]:
    """The values `[k]` that are taken side by side `[length]`, and their number.

    Of too many there are the first ones and the last one, which ends a text.
    """
    count = jnp.sum(taken, dtype=jnp.int32)
    slot = jnp.cumsum(taken, dtype=jnp.int32) - 1
    has_room = (slot < length - 1) | (slot == count - 1)
    # What is not taken, or has no room, goes to a place that is not there.
    slot = jnp.where(taken & has_room, jnp.minimum(slot, length - 1), length)
    return jnp.zeros(length, values.dtype).at[slot].set(values, mode="drop"), count
