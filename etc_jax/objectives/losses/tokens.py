"""What language models have in common, whichever tokens they predict."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from etc_jax.training.job import Sums


def streams(rng: jax.Array, deterministic: bool) -> dict[str, jax.Array]:
    """Keys of dropout and of hashing from a scalar key; none if neither is drawn."""
    if deterministic:
        return {}
    return dict(zip(("dropout", "lsh"), jax.random.split(rng), strict=True))


def token_sums(losses: jax.Array, hits: jax.Array, weights: jax.Array) -> Sums:
    """Loss and metrics of the targets of weight 1, as (sum, weight).

    Args:
      losses: float32, nats.
      hits: bool of the same shape, whether a target is the likeliest.
      weights: of the same shape, 1 or 0.

    Returns:
      {"loss": in nats, "bits": the loss in bits, "accuracy"}.
    """
    total, count = jnp.sum(losses * weights), jnp.sum(weights)
    return {
        "loss": (total, count),
        "bits": (total / math.log(2), count),
        "accuracy": (jnp.sum(hits * weights), count),
    }
