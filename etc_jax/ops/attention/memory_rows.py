"""Attention of a decoder, token by token, to the rows of an encoder.

    rows = MemoryRows(by_heads(key), by_heads(value), example_ids)
    output = attend(query, rows)

Keys and values are made once for all tokens. Beams of one input read the same ones.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops.attention.parts.softmax import MASKED, accumulation_dtype, dot

Array = jax.Array


class MemoryRows(NamedTuple):
    """What the cross-attention of one layer, or of all, reads.

    Attributes:
      key, value: `[b, h, n, d]`, with an axis of layers before it for all: the products
        of a step read them as they lie.
      example_ids: int `[b, n]`; 0 is padding.
    """

    key: Array
    value: Array
    example_ids: Array


def by_heads(x: Array) -> Array:
    """`[b, n, h, d]` -> `[b, h, n, d]`."""
    return jnp.swapaxes(x, 1, 2)


def attend(query: Array, rows: MemoryRows, *, scale: float | None = None) -> Array:
    """Attention to all rows that are no padding.

    Args:
      query: `[b * k, m, h, d]`; k sequences, one after the other, read one input.
      rows: of one layer.
      scale: of the products; None: 1 / sqrt(d).

    Returns:
      of the shape of `query`.
    """
    r, m, h, d = query.shape
    b = rows.key.shape[0]
    scale = d**-0.5 if scale is None else scale
    dtype = accumulation_dtype(query.dtype)
    # [b * k, m, h, d] -> [b, k * m, h, d]
    query = query.reshape(b, r // b * m, h, d)
    logits = dot("bqhd,bhnd->bhqn", query, rows.key, dtype) * scale
    seen = (rows.example_ids > 0)[:, None, None]
    weights = jax.nn.softmax(jnp.where(seen, logits, MASKED))
    out = dot("bhqn,bhnd->bqhd", weights, rows.value, dtype)
    return out.reshape(r, m, h, d).astype(query.dtype)
