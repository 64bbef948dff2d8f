"""Windows with global tokens inside the sequence, by kernels."""

from __future__ import annotations

import jax

from etc_jax.base.types import LabelTable, MeshAxes
from etc_jax.ops.attention.bias import BiasFn, RowBias
from etc_jax.ops.attention.kernels.choice import (
    backend,
    interpreted,
    tpu_problem,
    window_sizes,
)
from etc_jax.ops.attention.kernels.pieces import InlinePiece, Keys, OffsetBias, placed
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import Tokens


def problems(
    query: jax.Array,
    *,
    radius: int,
    dilation: tuple[int, ...],
    globals_,
    side_keys,
    offsets: LabelTable | None,
    bias: BiasFn | None,
    scale: float,
    mesh_axes: MeshAxes,
) -> dict[str, str | None]:
    """Why kernels cannot do it, by name; None: they can.

    Args:
      query: `[b, n, h, d]`.
      radius: of the windows.
      dilation: of each head.
      globals_: `sliding_window.Globals` or None.
      side_keys: `sliding_window.SideKeys` or None.
      offsets: labels by offset, or None.
      bias: function of offsets, or None.
      scale: of the products.
      mesh_axes: that batch and heads are split over.
    """
    on_tpu = None
    if offsets is not None:
        on_tpu = "offsets have labels"
    elif bias is not None and globals_ is not None:
        on_tpu = "global tokens have a bias"
    elif side_keys is not None:
        on_tpu = _side_problem(query, dilation, side_keys)
    split = None
    if any(mesh_axes) and set(dilation) != {1}:
        split = "dilated windows are split over devices"
    on_gpu = on_tpu or (None if bias is None else "offsets have a bias")
    side = 0 if globals_ is None else globals_.index.shape[1]
    side_keys_count = 0 if side_keys is None else side_keys.key.shape[1]
    sizes = window_sizes(query, radius, side)
    if bias is not None:
        _, n, h, d = query.shape
        sizes["biases of all heads"] = h * (2 * min(radius, n) + 1)
        sizes["features of all keys beside"] = side_keys_count * h * d
    return {
        "pallas": on_gpu or split,
        "mosaic": on_tpu or split or tpu_problem(sizes, scale),
    }


def _side_problem(query, dilation: tuple[int, ...], side_keys) -> str | None:
    n, g = query.shape[1], side_keys.key.shape[1]
    if side_keys.bias.values is None:
        return "keys beside the windows have a bias of their own for each row"
    # Blocks are longer than n / (g + 1): how many begin in 128 tokens at most.
    blocks = min(g - 1, 127 * (g + 1) // n + 1)
    if blocks > 16:
        return f"128 tokens have up to {blocks + 1} blocks, more than 17"
    return None if set(dilation) == {1} else "dilated windows have keys beside them"


def windows(
    kernels: str,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    side_rows: tuple[jax.Array, ...],
    tokens: Tokens,
    side: Tokens,
    *,
    radius: int,
    causal: bool,
    scale: float,
    dropout: Dropout,
    mesh_axes: MeshAxes,
    bias: RowBias | None = None,
) -> jax.Array:
    """Rows over their windows and the global keys, in one softmax.

    Args:
      kernels: one of `checks.KERNELS`.
      query: `[b, n, h, d]`.
      key: `[b, n, h, d]`.
      value: `[b, n, h, d]`.
      side_rows: keys and values `[b, g, h, d]` of the global tokens; () for none.
      tokens: of the sequence.
      side: of the global tokens.
      radius: of the window.
      causal: no key after the row.
      scale: of the products.
      dropout: of probabilities.
      mesh_axes: that batch and heads are split over.
      bias: with windows of this radius; or None.

    Returns:
      `[b, n, h, d]`.
    """
    joint_rows = backend(kernels)
    rows = placed(tokens)
    parts = [Keys(key, value, rows)]
    pieces = [InlinePiece(radius, causal)]
    if side_rows:
        parts.append(Keys(*side_rows, placed(side)))
        pieces.append(InlinePiece(None, causal))
    options = joint_rows.Options(
        scale, dropout.rate, tuple(pieces), interpret=interpreted(kernels)
    )
    more = {}
    if bias is not None:
        more["bias"] = OffsetBias(bias.window, radius)
        more["side_bias"] = bias.side
    return joint_rows.attend(
        options, query, rows, tuple(parts), None, dropout.rng, mesh_axes, **more
    )
