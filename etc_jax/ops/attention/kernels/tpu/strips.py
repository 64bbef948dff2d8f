"""Biases of offsets, of 128 queries on the lanes of a TPU.

The strip of a head is `[places, 128]`: place t and lane i have the bias of the offset
t - i - lead. The pairs of 128 queries and the keys of any tile are places of it that
lie together, so that kernels move nothing, and add the gradient of a tile to these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from etc_jax.ops import blocking
from etc_jax.ops.attention.bias import toeplitz
from etc_jax.ops.attention.kernels.tpu.registers import LANES, SUBLANES, iota, product

Array = jax.Array


class Span(NamedTuple):
    """What a strip has; static.

    Attributes:
      lead: place of offset 0 in lane 0.
      places: in all.
    """

    lead: int
    places: int


def make(span: Span, values: Array, before: int, lanes: int = LANES) -> Array:
    """The strips of heads.

    Args:
      span: of the strips.
      values: `[h or 1, offsets]`, from offset -before on; pairs of others are masked.
      before: how many offsets are below 0.
      lanes: of the strips.

    Returns:
      float32 `[h or 1, places, lanes]`.
    """
    first, last = span.lead + lanes - 1, span.places - span.lead - 1
    widths = (first - before, last - (values.shape[1] - before - 1))
    values = jnp.pad(values.astype(jnp.float32), ((0, 0), widths))
    # By lanes, of which there are few: [h, lanes, places] -> [h, places, lanes].
    return jnp.swapaxes(toeplitz(values[:, ::-1], lanes, span.places), 1, 2)


class Strip(NamedTuple):
    """The bias of a tile whose queries stand one after the other.

    Attributes:
      ref: `[places, ways * 128]`, a strip for each head.
      start: place of key 0 and query 0, a multiple of 8.
    """

    ref: Any
    start: Any

    def _cuts(self, keys: int, ways: int, queries: int):
        """The places and lanes of the strips, in the order of the tile's lanes."""
        for way in range(ways):
            for query in range(0, queries, LANES):
                first = self.start - query
                if not isinstance(first, int):
                    first = pl.multiple_of(first, SUBLANES)
                yield pl.ds(first, keys), slice(way * LANES, (way + 1) * LANES)

    def read(self, keys: int, ways: int, queries: int) -> Array:
        """float32 `[keys, ways * queries]`."""
        cuts = self._cuts(keys, ways, queries)
        return jnp.concatenate([self.ref[cut] for cut in cuts], axis=1)

    def add_gradient(self, total, ways: int, ds: Array, dtype) -> None:
        """The transpose of `read`, of `[keys, ways * queries]`, added to a ref."""
        del dtype
        cuts = self._cuts(ds.shape[0], ways, ds.shape[1] // ways)
        for number, cut in enumerate(cuts):
            total[cut] += ds[:, number * LANES : (number + 1) * LANES]


# Lanes of a head in the strips of keys beside: as blocks that 128 queries may have.
BLOCK_LANES = 32
# A register has 16 rows of bfloat16: starts are multiples of it.
_ROWS = 16


class BlockBias(NamedTuple):
    """A bias by the number of a key beside, less that of the block of a query.

    Attributes:
      strips: float32 `[h, places, 32]`; in kernels `[groups, places, ways * 32]`.
      lane: int32 `[b, n]`, how far the block of a query is after the first that its
        128 queries may have; in kernels `[b, 8, n]`.
      start: int32 `[b, n / 128]`, place of key 0 and that first block.
    """

    strips: Array
    lane: Array
    start: Array

    @classmethod
    def make(cls, values: Array, index: Array, rows: int, keys: int) -> BlockBias:
        """Of queries and keys with padding.

        Args:
          values: `[h or 1, 2 * g]`, see `SideBias`.
          index: int `[b, n]`, see `SideBias`.
          rows: n with padding.
          keys: g with padding.
        """
        count = values.shape[1] // 2
        # Tokens of no block see none of the keys.
        block = blocking.pad_axis(index, 1, 0, rows - index.shape[1]) - 1
        block = block.reshape(block.shape[0], -1, LANES)
        first = jnp.min(jnp.where(block < 0, count, block), axis=2, keepdims=True)
        first = jnp.minimum(first, count - 1) // _ROWS * _ROWS
        span = Span(keys - _ROWS, 2 * keys - _ROWS)
        # That of the last offset is of tokens of no block.
        strips = make(span, values[:, :-1], count - 1, BLOCK_LANES)
        lane = (block - first).reshape(block.shape[0], -1)
        return cls(strips, lane, span.lead - first[..., 0])

    def exact(self, ways: int) -> Array:
        """Strips whose products with ones are exact: `[groups, ways, places, 128]`.

        Three bfloat16 have the digits of a float32.
        """
        groups, length, _ = self.strips.shape
        rest, parts = self.strips.reshape(groups, length, ways, BLOCK_LANES), []
        for _ in range(3):
            # A conversion and its inverse might be left out by the compiler.
            parts.append(jax.lax.reduce_precision(rest, 8, 7))
            rest = rest - parts[-1]
        parts.append(jnp.zeros_like(rest))
        exact = jnp.concatenate(parts, axis=-1).astype(jnp.bfloat16)
        return jnp.swapaxes(exact, 1, 2)


class BlockStrip(NamedTuple):
    """The bias of a tile by blocks of queries: lanes chosen by a product with ones.

    Attributes:
      ref: `[ways, places, 128]`, see `BlockBias.exact`.
      start: see `BlockBias`.
      lane: int32 `[1, queries]`.
    """

    ref: Any
    start: Any
    lane: Array

    def _cut(self, keys: int):
        return pl.ds(pl.multiple_of(self.start, _ROWS), keys)

    def read(self, keys: int, ways: int, queries: int) -> Array:
        """float32 `[keys, ways * queries]`."""
        number = iota((LANES, queries), 0)
        ones = (number % BLOCK_LANES == self.lane) & (number < 3 * BLOCK_LANES)
        ones = ones.astype(jnp.float32).astype(jnp.bfloat16)
        cut = self._cut(keys)
        return jnp.concatenate(
            [product(self.ref[way, cut, :], ones) for way in range(ways)], axis=1
        )

    def add_gradient(self, total, ways: int, ds: Array, dtype) -> None:
        """The transpose of `read`, added to a ref `[places, 128]`, 32 lanes a head."""
        queries = ds.shape[1] // ways
        number = iota((LANES, queries), 0)
        # Tokens of no block are in no lane, also of the heads after the first.
        lane = jnp.where(self.lane < 0, LANES, self.lane)
        ones = [number == lane + way * BLOCK_LANES for way in range(ways)]
        ones = jnp.concatenate([x.astype(jnp.float32) for x in ones], axis=1)
        more = product(ds.astype(dtype), ones.astype(dtype), (1, 1))
        total[self._cut(ds.shape[0]), :] += more
