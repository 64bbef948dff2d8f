"""Windows with global tokens inside the sequence, by kernels."""

from __future__ import annotations

import jax

from etc_jax.base.types import MeshAxes
from etc_jax.ops.attention.kernels.choice import backend, interpreted
from etc_jax.ops.attention.kernels.pieces import InlinePiece, Keys, placed
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import Tokens


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
    return joint_rows.attend(
        options, query, rows, tuple(parts), None, dropout.rng, mesh_axes
    )
