"""Losses of a choice of antecedents where any right one will do (Lee et al. 2017)."""

import jax
import jax.numpy as jnp

from etc_jax.models.coreference import MASKED, SpanPairs


def marginal_loss(pairs: SpanPairs, clusters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """-log of the probability of the right antecedents, summed over the kept spans.

    Right are those of the span's own cluster. Where none of them is among its
    antecedents, or it is no mention, having no antecedent is right.

    Args:
      pairs: of one document.
      clusters: int `[m]`, the cluster of each candidate, from 1; 0 for none.

    Returns:
      (sum of losses in nats, number of kept spans), float32 scalars.
    """
    right = right_choices(pairs, clusters)
    # `MASKED`, not infinity, whose gradient would be NaN.
    of_right = jnp.where(right, pairs.scores, MASKED)
    losses = jax.nn.logsumexp(pairs.scores, axis=1) - jax.nn.logsumexp(of_right, axis=1)
    kept = pairs.top_mask.astype(jnp.float32)
    return jnp.sum(losses * kept), jnp.sum(kept)


def right_choices(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    """bool `[k, 1 + c]`, which antecedents are right; see `marginal_loss`."""
    own = _own(pairs, clusters)
    right = (own[pairs.antecedents] == own[:, None]) & (own > 0)[:, None]
    right &= pairs.antecedent_mask
    none_right = ~jnp.any(right, axis=1, keepdims=True)
    return jnp.concatenate([none_right, right], axis=1)


def mention_loss(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    """-log of the probability of being a mention or none, summed over the kept spans.

    Without it a mention score means nothing by itself, and an entity that is mentioned
    once is not found; with it one above 0 says that the span is a mention.

    Args:
      pairs: of one document.
      clusters: see `marginal_loss`.

    Returns:
      float32 `[]`, in nats.
    """
    is_mention = _own(pairs, clusters) > 0
    scores = jnp.where(is_mention, pairs.mention_scores, -pairs.mention_scores)
    return -jnp.sum(jax.nn.log_sigmoid(scores) * pairs.top_mask)


def _own(pairs: SpanPairs, clusters: jax.Array) -> jax.Array:
    return jnp.where(pairs.top_mask, clusters[pairs.top_spans], 0)
