"""Masked language modelling (Devlin et al. 2018; ETC paper, section 3.5)."""

import jax
import jax.numpy as jnp


def masked_lm(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """Cross-entropy at masked places.

    Args:
      logits: `[..., p, vocabulary]`.
      targets: int `[..., p]`, the tokens before masking.
      weights: `[..., p]`, 0 where a place is unused.

    Returns:
      (sum of losses in nats, sum of right guesses, sum of weights), float32 scalars.
    """
    logits = logits.astype(jnp.float32)
    top = jax.nn.logsumexp(logits, axis=-1)
    right = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    hits = jnp.argmax(logits, axis=-1) == targets
    weights = weights.astype(jnp.float32)
    return (
        jnp.sum((top - right) * weights),
        jnp.sum(hits * weights),
        jnp.sum(weights),
    )
