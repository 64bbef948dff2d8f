"""Contrastive predictive coding of sentences (Oord et al. 2018; ETC, section 3.5).

The prediction for a masked sentence is its summary token's output in the document; the
target is the output of a lone summary token that sees the sentence and nothing else.
The loss is noise-contrastive: among the targets of the whole batch, find one's own.
The paper leaves the similarity open; cosine with a learned temperature is the default,
the plain dot product the other choice.
"""

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.mlm import masked_lm

_NO_CANDIDATE = -1e30


def similarities(
    predictions: jax.Array,
    targets: jax.Array,
    *,
    similarity: str,
    temperature: jax.Array | float = 1.0,
) -> jax.Array:
    """Logits of every prediction against every target.

    Args:
      predictions: `[c, e]`.
      targets: `[c, e]`.
      similarity: "cosine" (divided by the temperature) or "dot".
      temperature: positive scalar.

    Returns:
      float32 `[c, c]`, row: prediction, column: target.

    Raises:
      ValueError: if there is no such similarity.
    """
    predictions = predictions.astype(jnp.float32)
    targets = targets.astype(jnp.float32)
    if similarity == "cosine":
        logits = _unit(predictions) @ _unit(targets).T
        return logits / temperature
    if similarity == "dot":
        return predictions @ targets.T
    raise ValueError(f"similarity {similarity!r} is not one of cosine, dot")


def _unit(x: jax.Array) -> jax.Array:
    # The epsilon is inside the root, so an all-zero row has a finite gradient.
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + 1e-12)


def contrastive(
    logits: jax.Array, weights: jax.Array, documents: jax.Array | None = None
):
    """Cross-entropy of finding one's own target, the diagonal.

    Args:
      logits: `[c, c]` of `similarities`.
      weights: `[c]`, 0 where a candidate is unused: neither row nor column counts.
      documents: int `[c]`; given, the targets of other sentences of the same document
        are no negatives. The paper does not say that it leaves them out.

    Returns:
      (sum of losses in nats, sum of right guesses, sum of weights), float32 scalars.
    """
    index = jnp.arange(weights.shape[0])
    candidate = weights[None, :] > 0
    if documents is not None:
        is_target = index[:, None] == index[None, :]
        other_document = documents[:, None] != documents[None, :]
        candidate = candidate & (is_target | other_document)
    return masked_lm(jnp.where(candidate, logits, _NO_CANDIDATE), index, weights)
