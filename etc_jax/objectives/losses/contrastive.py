"""Contrastive loss with the passages of a batch (InfoNCE, van den Oord et al. 2018)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Of what a query is not compared with: a probability of 0 in float32, and finite.
NOWHERE = -1e30


class Comparison(NamedTuple):
    """Logits of all that is compared in a batch.

    Attributes:
      queries: float32 `[b, b + b * k]`: of each query, the passages of the batch, its
        own on the diagonal, and then the hard negatives of all rows.
      passages: float32 `[b, b]`: of each passage, the queries of the batch.
    """

    queries: jax.Array
    passages: jax.Array


def compare(
    query: jax.Array,
    passage: jax.Array,
    negatives: jax.Array,
    *,
    query_keys: jax.Array,
    passage_keys: jax.Array,
    weights: jax.Array,
    temperature: float,
) -> Comparison:
    """Scores of queries and passages; `NOWHERE` where there is nothing to compare.

    A query is not compared with what may answer it too: its own passage in another
    row, and the passages of rows with the same query. Rows of padding and negatives
    that are not there count nowhere.

    Args:
      query: `[b, e]`, of length 1.
      passage: `[b, e]`, that answers the query of its row.
      negatives: `[b, k, e]`, that do not.
      query_keys: int `[b, 2]`, equal for equal queries.
      passage_keys: int `[b, 1 + k, 2]`, of the passage and the negatives; 0 for none.
      weights: `[b]`, 0 for padding.
      temperature: by which scores are divided.
    """
    b, k, e = negatives.shape
    # All passages of the batch, over all devices: [b + b * k, e]
    others = jnp.concatenate([passage, negatives.reshape(b * k, e)])
    scores = jnp.float32(query) @ jnp.float32(others).T / temperature
    own_keys = passage_keys[:, 0]
    keys = jnp.concatenate([own_keys, passage_keys[:, 1:].reshape(b * k, 2)])
    # [b, b + b * k]: the same passage, or, on the left, one of an equal query.
    answers = _equal(own_keys, keys)
    same_query = _equal(query_keys, query_keys)
    answers = answers.at[:, :b].set(answers[:, :b] | same_query)
    # A hard negative may answer an equal query, in whose row it is the passage.
    answers = answers.at[:, b:].set(
        (jnp.float32(same_query) @ jnp.float32(_equal(own_keys, keys[b:]))) > 0
    )
    real = weights > 0
    is_passage = jnp.concatenate([real, jnp.repeat(real, k)]) & jnp.any(
        keys != 0, axis=-1
    )
    is_own = jnp.eye(b, b + b * k, dtype=bool)
    allowed = is_own | (real[:, None] & is_passage[None] & ~answers)
    queries = jnp.where(allowed, scores, NOWHERE)
    return Comparison(queries, jnp.where(allowed[:, :b], scores[:, :b], NOWHERE).T)


def _equal(rows: jax.Array, columns: jax.Array) -> jax.Array:
    """bool `[r, c]`, which keys `[r, 2]` and `[c, 2]` are the same."""
    return jnp.all(rows[:, None] == columns[None], axis=-1)


def contrastive_losses(logits: jax.Array) -> jax.Array:
    """-log P(own), in nats: `[b, c]` with the own ones on the diagonal -> `[b]`."""
    positives = jnp.diagonal(logits)
    return jax.nn.logsumexp(logits, axis=-1) - positives
