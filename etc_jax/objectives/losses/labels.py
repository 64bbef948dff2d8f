"""A label of a whole text, such as for or against: IMDB, Hyperpartisan."""

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.qa_span import cross_entropy


def label_loss(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """Cross-entropy of the right label, in nats.

    Args:
      logits: `[b, c]`, one a label.
      targets: int `[b]`, the right labels; anything where the weight is 0.
      weights: `[b]`, 0 for padding examples.

    Returns:
      (sum of losses, sum of right guesses, sum of weights), float32 scalars.
    """
    weights = weights.astype(jnp.float32)
    losses = cross_entropy(logits, jnp.where(weights > 0, targets, 0))
    hits = jnp.argmax(logits, axis=-1) == targets
    return jnp.sum(losses * weights), jnp.sum(hits * weights), jnp.sum(weights)
