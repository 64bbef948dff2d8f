"""One of several candidate answers, each with a global token: WikiHop."""

import jax
import jax.numpy as jnp

# What the official code gives tokens that are no candidate.
NO_CANDIDATE = -10000.0


def candidate_logits(logits: jax.Array, is_candidate: jax.Array) -> jax.Array:
    """Logits of candidates alone.

    Args:
      logits: `[b, g]`.
      is_candidate: bool `[b, g]`.

    Returns:
      float32 `[b, g]`; other tokens have -10000, a probability of 0 in float32.
    """
    return jnp.where(is_candidate, logits.astype(jnp.float32), NO_CANDIDATE)


def choice(
    logits: jax.Array,
    is_candidate: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    *,
    label_smoothing: float = 0.0,
):
    """Cross-entropy of the right candidate (ETC, appendix C).

    Args:
      logits: `[b, g]`, one a global token.
      is_candidate: bool `[b, g]`.
      targets: int `[b]`, global token of the right candidate.
      weights: `[b]`, 0 for padding examples, which may have no candidate.
      label_smoothing: share of the target that is spread over all candidates.

    Returns:
      (sum of losses, sum of right guesses, sum of weights), float32 scalars.
    """
    losses = choice_losses(
        logits, is_candidate, targets, label_smoothing=label_smoothing
    )
    logits = candidate_logits(logits, is_candidate)
    hits = jnp.argmax(logits, axis=-1) == targets
    weights = weights.astype(jnp.float32)
    return jnp.sum(losses * weights), jnp.sum(hits * weights), jnp.sum(weights)


def choice_losses(
    logits: jax.Array,
    is_candidate: jax.Array,
    targets: jax.Array,
    *,
    label_smoothing: float = 0.0,
) -> jax.Array:
    """The cross-entropy of each example, float32 `[b]`; see `choice`."""
    log_p = jax.nn.log_softmax(candidate_logits(logits, is_candidate), axis=-1)
    right = jax.nn.one_hot(targets, logits.shape[-1], dtype=jnp.float32)
    if label_smoothing:
        number = jnp.maximum(jnp.sum(is_candidate, axis=-1, keepdims=True), 1)
        spread = is_candidate / number.astype(jnp.float32)
        right = (1.0 - label_smoothing) * right + label_smoothing * spread
    return -jnp.sum(right * log_p, axis=-1)
