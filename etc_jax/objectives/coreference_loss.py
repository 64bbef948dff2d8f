"""Loss of a choice of antecedents where any right one will do (Lee et al. 2017)."""

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
    own = jnp.where(pairs.top_mask, clusters[pairs.top_spans], 0)
    right = (own[pairs.antecedents] == own[:, None]) & (own > 0)[:, None]
    right &= pairs.antecedent_mask
    none_right = ~jnp.any(right, axis=1, keepdims=True)
    right = jnp.concatenate([none_right, right], axis=1)
    # `MASKED`, not infinity, whose gradient would be NaN.
    of_right = jnp.where(right, pairs.scores, MASKED)
    losses = jax.nn.logsumexp(pairs.scores, axis=1) - jax.nn.logsumexp(of_right, axis=1)
    kept = pairs.top_mask.astype(jnp.float32)
    return jnp.sum(losses * kept), jnp.sum(kept)
