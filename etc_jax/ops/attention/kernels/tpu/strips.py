"""Biases of offsets, of 128 queries on the lanes of a TPU.

The strip of a head is `[places, 128]`: place t and lane i have the bias of the offset
t - i - lead. The pairs of 128 queries and the keys of any tile are places of it that
lie together, so that kernels move nothing, and add the gradient of a tile to these.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from etc_jax.ops.attention.bias import toeplitz
from etc_jax.ops.attention.kernels.tpu.registers import LANES, SUBLANES

Array = jax.Array


class Span(NamedTuple):
    """What a strip has; static.

    Attributes:
      lead: place of offset 0 in lane 0.
      places: in all.
    """

    lead: int
    places: int


def make(span: Span, values: Array, before: int) -> Array:
    """The strips of heads.

    Args:
      span: of the strips.
      values: `[h or 1, offsets]`, from offset -before on; pairs of others are masked.
      before: how many offsets are below 0.

    Returns:
      float32 `[h or 1, places, 128]`.
    """
    first, last = span.lead + LANES - 1, span.places - span.lead - 1
    widths = (first - before, last - (values.shape[1] - before - 1))
    values = jnp.pad(values.astype(jnp.float32), ((0, 0), widths))
    # By lanes, of which there are few: [h, 128, places] -> [h, places, 128].
    return jnp.swapaxes(toeplitz(values[:, ::-1], LANES, span.places), 1, 2)


def _cuts(start, keys: int, ways: int, queries: int):
    """The places and lanes of a strip that a tile has, in the order of its lanes."""
    for way in range(ways):
        for query in range(0, queries, LANES):
            first = start - query
            if not isinstance(first, int):
                first = pl.multiple_of(first, SUBLANES)
            yield pl.ds(first, keys), slice(way * LANES, (way + 1) * LANES)


def read(ref, start, keys: int, ways: int, queries: int) -> Array:
    """The bias of a tile.

    Args:
      ref: `[places, ways * 128]`.
      start: place of key 0 and query 0, a multiple of 8.
      keys: of the tile.
      ways: heads.
      queries: of the tile.

    Returns:
      float32 `[keys, ways * queries]`.
    """
    cuts = _cuts(start, keys, ways, queries)
    return jnp.concatenate([ref[cut] for cut in cuts], axis=1)


def add_gradient(ref, start, ways: int, ds: Array) -> None:
    """The transpose of `read`: adds `[keys, ways * queries]`."""
    cuts = _cuts(start, ds.shape[0], ways, ds.shape[1] // ways)
    for number, cut in enumerate(cuts):
        ref[cut] += ds[:, number * LANES : (number + 1) * LANES]
