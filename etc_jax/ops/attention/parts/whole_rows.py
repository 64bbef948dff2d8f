"""Some queries over all keys at once: one softmax of one array of logits.

For few queries, so that their logits with all keys fit where a step works. The backward
pass works the logits out again from the saved log-sum-exp.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from etc_jax.ops import blocking, dropout
from etc_jax.ops.attention.parts.softmax import (
    accumulation_dtype,
    dot,
    finish,
    masked_logits,
    row_deltas,
    score_gradients,
)

Array = jax.Array


class WholeOptions(NamedTuple):
    """Static choices.

    Attributes:
      scale: of the products.
      dropout_rate: of attention probabilities.
    """

    scale: float
    dropout_rate: float


def _logits(options: WholeOptions, query, key, ids, dtype) -> Array:
    """`[b, h, k, q]`: keys are rows."""
    query_ids, key_ids = ids

    def mask(witness):
        del witness
        seen = (key_ids[:, :, None] == query_ids[:, None]) & (key_ids > 0)[:, :, None]
        return seen[:, None]

    witness = jnp.zeros((), jnp.int32)
    seen = blocking.materialised(mask, witness, witness)
    scores = dot("bkhd,bqhd->bhkq", key, query, dtype)
    return masked_logits(scores, None, seen, None, options.scale, witness)


def _factors(options: WholeOptions, rng, shape, dtype) -> Array | None:
    if rng is None:
        return None
    return dropout.factors(rng, options.dropout_rate, shape, dtype)


def _forward(options, query, key, value, ids, rng):
    dtype = accumulation_dtype(query.dtype)
    logits = _logits(options, query, key, ids, dtype)
    top = logits.max(-2)
    weights = jnp.exp(logits - top[..., None, :])
    total = weights.sum(-2)
    factors = _factors(options, rng, logits.shape, dtype)
    if factors is not None:
        weights = weights * factors
    acc = dot("bhkq,bkhd->bhqd", weights, value, dtype)
    output, lse = finish(acc, total, top)
    return jnp.swapaxes(output, 1, 2).astype(query.dtype), lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def whole_rows(
    options: WholeOptions,
    query: Array,
    key: Array,
    value: Array,
    ids: tuple[Array, Array],
    rng: Array | None,
) -> Array:
    """Attention of some queries to all keys of their example.

    Args:
      options: static choices.
      query: `[b, q, h, d]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      ids: int `[b, q]` and `[b, k]`, examples of queries and keys; 0 is padding.
      rng: key of dropout, or None.

    Returns:
      `[b, q, h, d]`; rows that see nothing are zero.
    """
    return _forward(options, query, key, value, ids, rng)[0]


def _vjp_forward(options, *inputs):
    output, lse = checkpoint_name(_forward(options, *inputs), "attention")
    return output, (inputs, output, lse)


def _vjp_backward(options, saved, d_output):
    (query, key, value, ids, rng), output, lse = saved
    dtype = accumulation_dtype(query.dtype)
    logits = _logits(options, query, key, ids, dtype)
    factors = _factors(options, rng, logits.shape, dtype)
    # [b, q, h, d] -> [b, h, q, d] -> [b, h, 1, q].
    rows = (jnp.swapaxes(x, 1, 2) for x in (output, d_output))
    delta = row_deltas(*rows, dtype)
    dp = dot("bkhd,bqhd->bhkq", value, d_output, dtype)
    dropped, ds = score_gradients(
        logits, lse[..., None, :], factors, dp, delta, options.scale
    )
    return (
        dot("bhkq,bkhd->bqhd", ds, key, dtype).astype(query.dtype),
        dot("bhkq,bqhd->bkhd", ds, query, dtype).astype(key.dtype),
        dot("bhkq,bqhd->bkhd", dropped, d_output, dtype).astype(value.dtype),
        None,
        None,
    )


whole_rows.defvjp(_vjp_forward, _vjp_backward)
