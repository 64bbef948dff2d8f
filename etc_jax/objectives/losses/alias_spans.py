"""Answers of which only the name is known, wherever the text has it: TriviaQA.

Nobody labels which of the places gives the answer, so that the loss asks for the
probability of all of them together (Clark & Gardner 2018, section 2.2), of first tokens
and of last tokens apart, as Longformer does (Beltagy et al. 2020).
"""

import jax
import jax.numpy as jnp

# Of tokens that do not compete: a probability of 0 in float32, and finite.
NOWHERE = -1e30


def alias_spans(
    start_logits: jax.Array,
    end_logits: jax.Array,
    *,
    starts: jax.Array,
    ends: jax.Array,
    is_token: jax.Array,
    weights: jax.Array,
):
    """-log P(some right place), the mean of first and last tokens.

    An example without a place has no weight.

    Args:
      start_logits: `[b, n]`.
      end_logits: `[b, n]`.
      starts: int `[b, m]`, first token of each occurrence; -1 for none. One that is
        there twice counts once.
      ends: int `[b, m]`, last token of each occurrence; -1 for none.
      is_token: bool `[b, n]`, tokens that a probability is given to, such as all but
        padding; occurrences are among them.
      weights: `[b]`, 0 for padding examples.

    Returns:
      (sum of losses, {"start" and "end": sum of its losses}, sum of best guesses that
      are right, sum of weights), float32 scalars. The best guess is the most probable
      first and the most probable last token; it is right if they are those of one
      occurrence.
    """
    weights = weights.astype(jnp.float32) * jnp.any(starts >= 0, axis=-1)
    start_logits, end_logits = (
        jnp.where(is_token, logits.astype(jnp.float32), NOWHERE)
        for logits in (start_logits, end_logits)
    )
    sums = {
        "start": jnp.sum(any_position_losses(start_logits, starts) * weights),
        "end": jnp.sum(any_position_losses(end_logits, ends) * weights),
    }
    is_first = starts == jnp.argmax(start_logits, axis=-1)[:, None]
    is_last = ends == jnp.argmax(end_logits, axis=-1)[:, None]
    hits = jnp.any(is_first & is_last, axis=-1)
    total = (sums["start"] + sums["end"]) / 2
    return total, sums, jnp.sum(hits * weights), jnp.sum(weights)


def any_position_losses(logits: jax.Array, positions: jax.Array) -> jax.Array:
    """-log of the probability of some places together, in nats.

    Args:
      logits: `[b, n]`.
      positions: int `[b, m]`; -1 for none.

    Returns:
      float32 `[b]`; 0 without a place.
    """
    logits = logits.astype(jnp.float32)
    is_right = jnp.any(
        positions[:, :, None] == jnp.arange(logits.shape[-1])[None, None], axis=1
    )
    # Finite in every branch: a gradient of 0 times infinity is no number.
    right = jax.nn.logsumexp(jnp.where(is_right, logits, NOWHERE), axis=-1)
    losses = jax.nn.logsumexp(logits, axis=-1) - right
    return jnp.where(jnp.any(is_right, axis=-1), losses, 0.0)
