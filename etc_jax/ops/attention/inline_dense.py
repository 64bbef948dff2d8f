"""The dense oracle of attention inside one sequence: every pair, any float type.

Quadratic; exists to be obviously right. Written apart from the blocked forms.
"""

import jax
import jax.numpy as jnp

MASKED = -1e30


def _softmax(query, key, value, mask, dropout):
    """`[b, q, h, d]` over `[b, k, h, d]` where `[b, h or 1, q, k]` allows it."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
    scores = scores / jnp.sqrt(jnp.asarray(query.shape[-1], query.dtype))
    probabilities = jax.nn.softmax(jnp.where(mask, scores, MASKED), axis=-1)
    probabilities *= jnp.any(mask, axis=-1, keepdims=True)
    if dropout is not None:
        probabilities = dropout(probabilities)
    return jnp.einsum("bhqk,bkhd->bqhd", probabilities, value)


def attend(
    query,
    key,
    value,
    *,
    radius,
    dilation,
    causal,
    example_ids,
    globals_,
    dropout=None,
    query_ids=None,
):
    """Windows and inline global tokens; arguments as of `sliding_window.attend`.

    Args:
      query: `[b, n, h, d]`.
      key: likewise.
      value: likewise.
      radius: reach of the window in steps; None: everything is near.
      dilation: places of a step, for each head.
      causal: no key behind the query.
      example_ids: int `[b, n]`.
      globals_: `sliding_window.Globals` or None.
      dropout: function of `[b, h, q, k]` probabilities, or None.
      query_ids: of the queries; None: example_ids.

    Returns:
      `[b, n, h, d]`.
    """
    n = query.shape[1]
    place = jnp.arange(n)
    offset = place[None, :] - place[:, None]
    step = jnp.asarray(dilation)[:, None, None]
    near = jnp.ones((1, n, n), bool)
    if radius is not None:
        near = (jnp.abs(offset)[None] <= radius * step) & (offset[None] % step == 0)
    query_ids = example_ids if query_ids is None else query_ids
    allowed = (query_ids[:, :, None] == example_ids[:, None, :]) & (
        example_ids[:, None, :] > 0
    )
    if causal:
        allowed &= (offset <= 0)[None]
    is_global = jnp.zeros(example_ids.shape, bool)
    if globals_ is not None:
        is_global = jnp.any(globals_.index[:, :, None] == place[None, None], axis=1)
        is_global &= example_ids > 0
    mask = allowed[:, None] & (near[None] | is_global[:, None, None])
    out = _softmax(query, key, value, mask, dropout)
    if globals_ is None:
        return out
    index = jnp.maximum(globals_.index, 0)
    rows = jnp.take_along_axis(allowed, index[..., None], axis=1)[:, None]
    found = _softmax(globals_.query, globals_.key, globals_.value, rows, dropout)
    # Each token takes the row of its own global query.
    slot = jnp.argmax(globals_.index[:, None] == place[None, :, None], axis=-1)
    found = jnp.take_along_axis(found, slot[..., None, None], axis=1)
    return jnp.where(is_global[..., None, None], found, out)
