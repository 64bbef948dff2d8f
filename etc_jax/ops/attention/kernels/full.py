"""Rows over all keys, by kernels."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from etc_jax.base.types import MeshAxes
from etc_jax.ops.attention.bias import BiasFn
from etc_jax.ops.attention.kernels.choice import backend, interpreted, tpu_problem
from etc_jax.ops.attention.kernels.pieces import InlinePiece, Keys, OffsetBias, placed
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import Tokens


def problems(
    queries: int,
    keys: int,
    scale: float,
    bias: jax.Array | BiasFn | None = None,
    in_order: bool = True,
) -> dict[str, str | None]:
    """Why kernels cannot do it, by name; None: they can.

    Args:
      queries: q, of `[b, q, h, d]`.
      keys: k, of `[b, k, h, d]`.
      scale: of the products.
      bias: see `ops.attention.full.attend`.
      in_order: whether query i stands at place i of the keys.
    """
    problem = None
    if not in_order:
        problem = "the queries are some of a cache"
    elif bias is not None and not callable(bias):
        problem = "the bias is an array of all pairs"
    sizes = {"queries": queries}
    if bias is not None:
        sizes["offsets of a bias"] = queries + keys - 1
    return {
        "pallas": problem or "all keys are seen",
        "mosaic": problem or tpu_problem(sizes, scale),
    }


def attend(
    kernels: str,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    query_tokens: Tokens,
    tokens: Tokens,
    *,
    causal: bool,
    bias: BiasFn | None,
    scale: float,
    dropout: Dropout,
    mesh_axes: MeshAxes,
    in_order: bool = False,
) -> jax.Array:
    """Rows over all keys of their example.

    Args:
      kernels: one of `checks.KERNELS` that can do it.
      query: `[b, q, h, d]`.
      key: `[b, k, h, d]`.
      value: `[b, k, h, d]`.
      query_tokens: of the queries.
      tokens: of the keys.
      causal: no key after the query.
      bias: function of offsets, or None.
      scale: of the products.
      dropout: of probabilities.
      mesh_axes: that batch and heads are split over.
      in_order: whether query i stands at place i of the keys; a bias needs it.

    Returns:
      `[b, q, h, d]`.
    """
    joint_rows = backend(kernels)
    options = joint_rows.Options(
        scale,
        dropout.rate,
        (InlinePiece(None, causal, in_order),),
        interpret=interpreted(kernels),
    )
    more = {}
    if bias is not None:
        before = query.shape[1] - 1
        offsets = jnp.arange(-before, key.shape[1], dtype=jnp.int32)
        more["bias"] = OffsetBias(bias(offsets), before)
    rows, keys = placed(query_tokens), Keys(key, value, placed(tokens))
    return joint_rows.attend(
        options, query, rows, (keys,), None, dropout.rng, mesh_axes, **more
    )
