"""Blocks that see some blocks, by kernels."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.types import MeshAxes
from etc_jax.ops import blocking
from etc_jax.ops.attention.kernels.choice import interpreted, tpu_problem
from etc_jax.ops.attention.kernels.devices import on_each_device
from etc_jax.ops.attention.parts.block_parts import BlockOptions, Blocks
from etc_jax.ops.attention.parts.dropout import Dropout

Array = jax.Array

# Rows of a register of bfloat16, which blocks start with.
_ROWS = 16


def problems(block_size: int, tokens: int, scale: float) -> dict[str, str | None]:
    """Why kernels cannot do it, by name; None: they can.

    Args:
      block_size: tokens of a block.
      tokens: of all blocks.
      scale: of the products.
    """
    problem = None
    if block_size % _ROWS:
        problem = f"the block size is {block_size}, not a multiple of {_ROWS}"
    sizes = {"tokens of sparse blocks": tokens}
    return {
        "pallas": "some blocks are seen",
        "mosaic": problem or tpu_problem(sizes, scale),
    }


class _Arrays(NamedTuple):
    """What is split over devices.

    Attributes:
      query, key, value: `[b, n, h, d]`.
      ids: int32 `[b, n]`.
      drawn: int32 `[h, inner, r]`.
      seeds: uint32 `[b, h, 1]` of dropout, or None.
    """

    query: Array
    key: Array
    value: Array
    ids: Array
    drawn: Array
    seeds: Array | None


def attend(
    kernels: str,
    options: BlockOptions,
    query: Array,
    key: Array,
    value: Array,
    blocks: Blocks,
    dropout: Dropout,
    mesh_axes: MeshAxes,
) -> Array:
    """Attention of the inner blocks.

    Args:
      kernels: one of `checks.KERNELS` that can do it.
      options: static choices.
      query: `[b, n, h, d]`, whole blocks, with an inner one.
      key: `[b, n, h, d]`, whole blocks, with an inner one.
      value: `[b, n, h, d]`, whole blocks, with an inner one.
      blocks: of the sequence.
      dropout: of probabilities.
      mesh_axes: that batch and heads are split over.

    Returns:
      `[b, inner blocks * s, h, d]` in the dtype of `query`.
    """
    b, _, h, _ = query.shape
    seeds = None
    if dropout.rng is not None:
        seeds = jax.random.bits(dropout.rng, (b, h, 1), jnp.uint32)
    rows = jax.P(mesh_axes.batch, None, mesh_axes.heads)
    tokens, heads = jax.P(mesh_axes.batch), jax.P(mesh_axes.heads)
    of_both = jax.P(mesh_axes.batch, mesh_axes.heads)
    specs = _Arrays(rows, rows, rows, tokens, heads, of_both)
    arrays = _Arrays(query, key, value, blocks.example, blocks.drawn, seeds)
    fn = functools.partial(_attend_heads, options, interpreted(kernels))
    return on_each_device(fn, arrays, specs, rows)


def _attend_heads(options: BlockOptions, interpret: bool, arrays: _Arrays) -> Array:
    """Heads and features padded to whole groups, and back."""
    # Not at the top: see `choice.backend`.
    from etc_jax.ops.attention.kernels.tpu import sparse_blocks
    from etc_jax.ops.attention.kernels.tpu.registers import (
        features_of,
        group_of_heads,
        heads_of,
    )

    h, d = arrays.query.shape[2:]
    ways, width = group_of_heads(d)
    features = functools.partial(features_of, ways=ways, width=width)
    _, inner, r = arrays.drawn.shape
    size, first = options.block_size, options.first
    # [b, n] -> [b, inner, 1, ways * s].
    row_ids = arrays.ids[:, first * size : (first + inner) * size]
    row_ids = jnp.tile(row_ids.reshape(-1, inner, 1, size), ways)
    # [h, inner, r] -> [groups, ways, inner * r].
    drawn = blocking.pad_axis(arrays.drawn, 0, 0, -h % ways)
    seeds = arrays.seeds
    if seeds is not None:
        seeds = blocking.pad_axis(seeds, 1, 0, -h % ways)
    out = sparse_blocks.attend(
        sparse_blocks.Options(
            scale=options.scale,
            dropout_rate=options.dropout_rate,
            size=size,
            first=first,
            common=options.common,
            draws=r,
            ways=ways,
            interpret=interpret,
        ),
        sparse_blocks.Inputs(
            features(arrays.query),
            features(arrays.key),
            features(arrays.value),
            arrays.ids[..., None],
            row_ids,
            drawn.reshape(len(drawn) // ways, ways, inner * r),
            seeds,
        ),
    )
    return heads_of(out, h, d, ways)
