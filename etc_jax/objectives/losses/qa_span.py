"""Answers as spans of the input, with a type: HotpotQA and Natural Questions.

Losses of the official ETC code (Ainslie et al. 2020, appendix C): each part is a
cross-entropy, and an example's loss is the mean of its parts.
"""

import jax
import jax.numpy as jnp

from etc_jax.data.windows.label_names import NATURAL_QUESTIONS_PLACES


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Cross-entropy of the last axis, in nats.

    Args:
      logits: `[..., c]`.
      targets: int `[...]`, classes.

    Returns:
      float32 `[...]`.
    """
    logits = logits.astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def span_losses(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Cross-entropy over the places of an input, for each kind of place.

    Padding competes as any place does, as in the official code: its rows are the same
    in every input, and the model learns to rule them out.

    Args:
      logits: `[b, n, s]`, such as beginnings and ends (s = 2).
      targets: int `[b, s]`, places.

    Returns:
      float32 `[b, s]`.
    """
    return cross_entropy(jnp.swapaxes(logits, 1, 2), targets)


def support_loss(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Sum over the global tokens of the cross-entropy of "supports the answer".

    Padding counts as not supporting, as in the official code.

    Args:
      logits: `[b, g]`.
      targets: `[b, g]`, 1 for tokens that support.

    Returns:
      float32 `[b]`.
    """
    logits, targets = logits.astype(jnp.float32), targets.astype(jnp.float32)
    # -log sigmoid(x) = softplus(-x), and softplus(x) for the other class.
    return jnp.sum(jax.nn.softplus(logits) - targets * logits, axis=-1)


def hotpotqa(
    support_logits: jax.Array,
    type_logits: jax.Array,
    span_logits: jax.Array,
    *,
    support: jax.Array,
    answer_type: jax.Array,
    begin: jax.Array,
    end: jax.Array,
    weights: jax.Array,
):
    """The mean of supporting sentences, answer type, beginning and end.

    Args:
      support_logits: `[b, g]`.
      type_logits: `[b, 3]`.
      span_logits: `[b, n, 2]`.
      support: `[b, g]`, 1 for global tokens that support the answer.
      answer_type: int `[b]`.
      begin: int `[b]`, first long token of the span; 0 without one.
      end: int `[b]`, last long token of the span; 0 without one.
      weights: `[b]`, 0 for padding examples.

    Returns:
      (sum of losses, {part: sum of its losses}, sum of weights), float32 scalars.
    """
    spans = span_losses(span_logits, jnp.stack([begin, end], axis=-1))
    return _mean_of_parts(
        {
            "support": support_loss(support_logits, support),
            "answer_type": cross_entropy(type_logits, answer_type),
            "begin": spans[:, 0],
            "end": spans[:, 1],
        },
        weights,
    )


def natural_questions(
    type_logits: jax.Array,
    span_logits: jax.Array,
    *,
    answer_type: jax.Array,
    positions: jax.Array,
    weights: jax.Array,
):
    """The mean of answer type and of both ends of the short and the long answer.

    Args:
      type_logits: `[b, 5]`.
      span_logits: `[b, n, 4]`: short answer's begin and end, long answer's.
      answer_type: int `[b]`.
      positions: int `[b, 4]`, in the order of the logits; 0 without a span.
      weights: `[b]`, 0 for padding examples.

    Returns:
      (sum of losses, {part: sum of its losses}, sum of weights), float32 scalars.
    """
    spans = span_losses(span_logits, positions)
    parts = {name: spans[:, i] for i, name in enumerate(NATURAL_QUESTIONS_PLACES)}
    return _mean_of_parts(
        {**parts, "answer_type": cross_entropy(type_logits, answer_type)}, weights
    )


def outside_document(token_ids: jax.Array, *, cls: int, sep: int) -> jax.Array:
    """Where no Natural Questions answer can be: bool `[b, n]`.

    Inside are the first token, which stands for no answer, and what is between the
    first separator (of the question) and the second (at the document's end).

    Args:
      token_ids: int `[b, n]`.
      cls: id of the first token.
      sep: id of the separator.
    """
    separator = token_ids == sep
    document = (jnp.cumsum(separator, axis=-1) == 1) & ~separator
    return ~document & (token_ids != cls)


def _mean_of_parts(parts: dict[str, jax.Array], weights: jax.Array):
    weights = weights.astype(jnp.float32)
    sums = {name: jnp.sum(loss * weights) for name, loss in parts.items()}
    return sum(sums.values()) / len(sums), sums, jnp.sum(weights)
