"""The dense oracle of every attention here: all pairs at once, any float type.

Quadratic; exists to be obviously right. Written apart from the blocked forms: an op
says who sees whom as one mask, and what is added to the logits as one bias.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

# Far below any logit, and finite: a row of these alone has no inf - inf.
MASKED = -1e30


def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
    *,
    scale: float | None = None,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """softmax(query . key * scale + bias) of the pairs in `mask`, times value.

    Args:
      query: `[b, q, h, d]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      mask: bool, broadcastable to `[b, h, q, k]`; None: everything is seen.
      bias: float, broadcastable to `[b, h, q, k]`; None: 0. The logarithm of a count
        makes a pair count so often.
      scale: of the products; None: 1 / sqrt(d).
      dropout: function of `[b, h, q, k]` probabilities, or None.

    Returns:
      `[b, q, h, d]`; rows that see nothing are zero.
    """
    if not key.shape[1]:
        return jnp.zeros_like(query)
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key)
    logits *= 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if bias is not None:
        logits += bias
    if mask is None:
        mask = jnp.ones((1, 1, 1, 1), bool)
    probabilities = jax.nn.softmax(jnp.where(mask, logits, MASKED), axis=-1)
    # A row that sees nothing is all MASKED, of which the softmax makes a mean over
    # masked keys: exact zeros instead.
    probabilities *= jnp.any(mask, axis=-1, keepdims=True)
    if dropout is not None:
        probabilities = dropout(probabilities)
    return jnp.einsum("bhqk,bkhd->bqhd", probabilities, value)


def counted(met: jax.Array, dtype) -> tuple[jax.Array, jax.Array]:
    """(mask, bias) of pairs that count `met` times; int `[..., q, k]`."""
    # exp(logit + log m) is m times exp(logit). The log of 0 is left to the mask.
    return met > 0, jnp.log(jnp.maximum(met, 1).astype(dtype))
