"""Labels of a whole text, one of some or any number of them, and of its tokens."""

import jax
import jax.numpy as jnp

from etc_jax.objectives.losses.qa_span import cross_entropy


def label_loss(
    logits: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    class_weights: jax.Array | float = 1.0,
):
    """Cross-entropy of the right label, in nats.

    Args:
      logits: `[b, c]`, one a label.
      targets: int `[b]`, the right labels; anything where the weight is 0.
      weights: `[b]`, 0 for padding examples.
      class_weights: `[c]`, factors of the losses of texts with each label.

    Returns:
      (sum of losses, sum of right guesses, sum of weights), float32 scalars. Weights of
      classes are in the first of them alone.
    """
    weights = weights.astype(jnp.float32)
    classes = jnp.where(weights > 0, targets, 0)
    factors = jnp.broadcast_to(class_weights, logits.shape[-1:])[classes]
    losses = factors * cross_entropy(logits, classes)
    hits = jnp.argmax(logits, axis=-1) == targets
    return jnp.sum(losses * weights), jnp.sum(hits * weights), jnp.sum(weights)


def label_set_loss(
    logits: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    class_weights: jax.Array | float = 1.0,
):
    """Binary cross-entropy of each label, in nats: of a text the mean over all labels.

    Args:
      logits: `[b, c]`, one a label.
      targets: int `[b, c]`, 1 for the labels of each text; anything where the weight
        is 0.
      weights: `[b]`, 0 for padding examples.
      class_weights: `[c]`, factors of the loss of each label.

    Returns:
      (sum of losses, (numerator, denominator) of micro F1), float32 scalars. A label is
      given where its logit is above 0.
    """
    logits, weights = logits.astype(jnp.float32), weights.astype(jnp.float32)
    wanted = targets.astype(jnp.float32)
    # -log sigmoid(x) = softplus(-x), and softplus(x) = softplus(-x) + x for no.
    factors = jnp.broadcast_to(class_weights, logits.shape)
    losses = factors * (jax.nn.softplus(logits) - wanted * logits)
    predicted = logits > 0
    of_each = weights[:, None]
    both = 2.0 * jnp.sum(predicted * wanted * of_each)
    return jnp.sum(jnp.mean(losses, axis=-1) * weights), (
        both,
        jnp.sum((predicted + wanted) * of_each),
    )


def token_label_loss(
    logits: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    class_weights: jax.Array | float = 1.0,
):
    """Cross-entropy of the labels of tokens, in nats: of a text the mean over them.

    Args:
      logits: `[b, n, c]`, one a label.
      targets: int `[b, n]`, the right labels; -1 for tokens without one.
      weights: `[b]`, 0 for padding examples.
      class_weights: `[c]`, factors of the losses of tokens with each label.

    Returns:
      (sum of losses, (right guesses, tokens with a label)), float32 scalars. Weights of
      classes are in the first of them alone.
    """
    weights = weights.astype(jnp.float32)
    shares = token_shares(targets, class_weights, logits.shape[-1])
    losses = shares * cross_entropy(logits, jnp.maximum(targets, 0))
    counted = weights[:, None] * (targets >= 0)
    hits = jnp.argmax(logits, axis=-1) == targets
    return (
        jnp.sum(jnp.sum(losses, axis=-1) * weights),
        (jnp.sum(hits * counted), jnp.sum(counted)),
    )


def token_shares(
    targets: jax.Array, class_weights: jax.Array | float, number: int
) -> jax.Array:
    """What the loss of each token counts in the mean of its text, float32 `[b, n]`.

    Args:
      targets: int `[b, n]`, -1 for tokens without a label, which have 0.
      class_weights: `[number]`, or a number for all.
      number: of labels.
    """
    has_label = targets >= 0
    count = jnp.maximum(jnp.sum(has_label, axis=-1, keepdims=True), 1)
    factors = jnp.broadcast_to(class_weights, (number,))[jnp.maximum(targets, 0)]
    return jnp.where(has_label, factors / count, 0.0).astype(jnp.float32)
