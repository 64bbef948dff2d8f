"""Masked language modelling (Devlin et al. 2018; ETC paper, section 3.5)."""

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.qa_span import cross_entropy


def masked_lm(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """Cross-entropy at masked places.

    Args:
      logits: `[..., p, vocabulary]`.
      targets: int `[..., p]`, the tokens before masking.
      weights: `[..., p]`, 0 where a place is unused.

    Returns:
      (sum of losses in nats, sum of right guesses, sum of weights), float32 scalars.
    """
    losses = cross_entropy(logits, targets)
    hits = jnp.argmax(logits, axis=-1) == targets
    weights = weights.astype(jnp.float32)
    return jnp.sum(losses * weights), jnp.sum(hits * weights), jnp.sum(weights)
