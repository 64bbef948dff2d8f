"""What is added to the logits, and its gradient, for blocks of keys.

A bias is a function of offsets (place of the key minus place of the query), as T5's
buckets (Raffel et al. 2020, section 2.1) or slopes are, or an array of all pairs. Of a
function a blocked form needs one number an offset: the bias of a block is a Toeplitz
matrix of them, so that all pairs never exist at once.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking

Array = jax.Array

# int32 offsets `[...]` -> float `[h or 1, ...]`.
BiasFn = Callable[[Array], Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BucketBias:
    """T5's relative positions: one number for each bucket of offsets and each head.

    A function of offsets, see `BiasFn`, and a tree of the table: layers under a scan
    can be handed it.

    Attributes:
      table: float `[buckets, h]`.
      max_distance: see `bucket`.
      causal: see `bucket`.
    """

    table: Array
    max_distance: int = dataclasses.field(metadata={"static": True})
    causal: bool = dataclasses.field(metadata={"static": True})

    def __call__(self, offset: Array) -> Array:
        """int32 `[...]` -> `[h, ...]`."""
        buckets = self.table.shape[0]
        index = bucket(offset, buckets, self.max_distance, causal=self.causal)
        return jnp.moveaxis(jnp.take(self.table, index, axis=0), -1, 0)


def bucket(
    offset: Array, num_buckets: int, max_distance: int, *, causal: bool
) -> Array:
    """The bucket of each offset (Raffel et al. 2020, section 2.1).

    Short distances have a bucket each, longer ones share buckets that grow with the
    logarithm of the distance up to `max_distance`; all beyond share the last one.

    A `max_distance` among the short distances turns the scale around, as in the code of
    T5 and of transformers: from the last short distance on buckets fall, to 0 at last.

    Args:
      offset: int, place of the key minus place of the query.
      num_buckets: how many there are, 2 or more; 4 or more if not causal.
      max_distance: from which on there is one bucket, 1 or more.
      causal: all keys before the query have the buckets; else those after it have
        half of them. Of an odd number the last one is then left over.

    Returns:
      int32 of the shape of `offset`.
    """
    sided = num_buckets if causal else num_buckets // 2
    exact = sided // 2
    # Causal: keys after the query, which a mask hides, fall in bucket 0.
    distance = jnp.maximum(-offset, 0) if causal else jnp.abs(offset)
    thresholds = jnp.asarray(
        _first_distances(exact, sided - exact, max_distance), jnp.int32
    )
    # How many buckets lie between the first of the long distances and this one.
    steps = jnp.searchsorted(thresholds, distance, side="right", method="compare_all")
    index = jnp.minimum(distance, exact)
    index += steps if max_distance >= exact else -steps
    if not causal:
        index += sided * (offset > 0)
    return index.astype(jnp.int32)


def _first_distances(exact: int, large: int, max_distance: int) -> list[int]:
    """Of each bucket after the first of the `large` ones, the least distance in it.

    In whole numbers: at the border of two buckets a logarithm may round either way.
    """
    # The least n with n >= exact * ratio ** (i / large), ratio = above / below.
    above, below = max(max_distance, exact), min(max_distance, exact)
    # Buckets rise to the last one, or fall to 0.
    count = large if max_distance >= exact else exact + 1
    return [
        bisect.bisect_left(
            range(exact * above // below + 1),  # i is at most large
            above**i * exact**large,
            key=lambda n, i=i: n**large * below**i,
        )
        for i in range(1, count)
    ]


def toeplitz(values: Array, keys: int, queries: int) -> Array:
    """Pairs from what is there by offset.

    Args:
      values: `[..., keys + queries - 1]`, that of the last query and first key first.
      keys: how many there are.
      queries: how many there are.

    Returns:
      `[..., keys, queries]`.
    """
    lead, size = values.shape[:-1], keys + queries - 1
    # Each row of a matrix that is one wider starts one place later.
    tiled = jnp.broadcast_to(values[..., None, :], (*lead, keys + 1, size))
    flat = tiled.reshape(*lead, (keys + 1) * size)
    flat = blocking.pad_axis(flat, -1, 0, max(0, keys * (size + 1) - flat.shape[-1]))
    wide = flat[..., : keys * (size + 1)].reshape(*lead, keys, size + 1)
    # Entry (k, q) is values[k - q + queries - 1]: [..., keys, queries].
    return jnp.flip(wide[..., :queries], axis=-1)


def by_offset(pairs: Array) -> Array:
    """The transpose of `toeplitz`: `[..., keys, queries]` -> `[..., offsets]`."""
    *lead, keys, queries = pairs.shape
    values = jax.ShapeDtypeStruct((*lead, keys + queries - 1), pairs.dtype)
    # The transpose of slices, padding and reshapes sums each diagonal: no scatter.
    back = jax.linear_transpose(lambda x: toeplitz(x, keys, queries), values)
    return back(pairs)[0]


class SideBias(NamedTuple):
    """Of the keys beside: rows of a table, one for each token.

    Tokens that add the same to their logits, as those of one block, have one row: the
    whole, of all tokens and keys, never exists.

    Attributes:
      rows: `[b or 1, m, h or 1, g]`.
      index: int `[b, n]`, the row of each token.
      values: `[h or 1, 2 * g]`, if row m + 1 has those of the offsets of the keys from
        number m, -g + 1 to g in all, and row 0 is of tokens that see none of them;
        then tokens of one row lie together, in the order of the rows. Or None.
    """

    rows: Array
    index: Array
    values: Array | None = None

    @classmethod
    def of_tokens(cls, bias: Array) -> SideBias:
        """Each token has a row of its own: `[b, n, h or 1, g]`."""
        b, n = bias.shape[:2]
        position = jnp.arange(n, dtype=jnp.int32)
        return cls(bias, jnp.broadcast_to(position, (b, n)))

    def of(self, start, size: int) -> Array:
        """Of `size` tokens from one on: `[b, h or 1, g, size]`."""
        index = blocking.slice_axis(self.index, start, size, 1)
        if self.rows.shape[0] == 1:
            # [m, h or 1, g] at [b, size] -> [b, size, h or 1, g].
            rows = jnp.take(self.rows[0], index, axis=0, mode="clip")
        else:
            rows = jax.vmap(lambda x, i: jnp.take(x, i, axis=0, mode="clip"))(
                self.rows, index
            )
        return jnp.moveaxis(rows, 1, 3)

    def no_gradient(self, dtype) -> Array:
        """Zeros `[b, m, h or 1, g]` for `add_gradient`; the batch is summed at last."""
        b = self.index.shape[0]
        return jnp.zeros((b, *self.rows.shape[1:]), dtype)

    def add_gradient(self, total: Array, ds: Array, start) -> Array:
        """With that of the tokens from `start`, `[b, h, g, size]`."""
        index = blocking.slice_axis(self.index, start, ds.shape[3], 1)
        # [b, h, g, size] -> [b, size, h or 1, g].
        ds = jnp.moveaxis(ds, 3, 1)
        if total.shape[2] == 1:
            ds = jnp.sum(ds, axis=2, keepdims=True)
        return jax.vmap(lambda x, i, rows: x.at[i].add(rows))(total, index, ds)


class RowBias(NamedTuple):
    """Of long rows, which see a window and the keys that stand beside.

    Attributes:
      window: `[h or 1, 2 * radius + 1]`, by offset from the first to the last.
      side: of the keys beside; None if there are none.
    """

    window: Array
    side: SideBias | None

    def of_windows(self, block_size: int) -> Array:
        """Of a block of queries and its window: `[h or 1, w, block_size]`."""
        # Places of the window that are too far from a query are never seen.
        far = block_size - 1
        around = blocking.pad_axis(self.window, -1, far, far)
        # [h, 2r + 1 + 2 (q - 1)] -> [h, w, q], w = 2r + q.
        return toeplitz(around, self.window.shape[-1] + far, block_size)

    def window_gradient(self, ds: Array) -> Array:
        """The transpose of `of_windows`: `[b, h, w, q]` -> `[b, h, 2 * radius + 1]`."""
        far = ds.shape[-1] - 1
        return by_offset(ds)[..., far:][..., : self.window.shape[-1]]


class PairBias(NamedTuple):
    """Of all pairs.

    Attributes:
      values: `[b or 1, h or 1, keys, q]`.
    """

    values: Array

    @classmethod
    def make(cls, bias: Array, padded: int) -> PairBias:
        """Of `[b or 1, h or 1, q, keys]`, padded to so many keys."""
        # Keys are rows, as in blocks of logits: [b, h, q, k] -> [b, h, k, q].
        keys = jnp.swapaxes(bias, 2, 3)
        return cls(blocking.pad_axis(keys, 2, 0, padded - keys.shape[2]))

    def block(self, start, size: int, queries: int) -> Array:
        """Of the keys from `start`: `[b or 1, h or 1, size, q]`."""
        del queries
        return blocking.slice_axis(self.values, start, size, 2)

    def no_gradient(self, batch: tuple[int, int], dtype) -> Array:
        """Zeros of the shape of `values` for `add_gradient`; `batch` is (b, h)."""
        del batch
        return jnp.zeros(self.values.shape, dtype)

    def add_gradient(self, total: Array, ds: Array, start) -> Array:
        """With that of the block from `start`, `[b, h, size, q]`."""
        part = summed_to(ds, (*self.values.shape[:2], *ds.shape[2:]))
        # Blocks have no key in common, so that a part replaces the zeros of `total`.
        return jax.lax.dynamic_update_slice_in_dim(total, part, start, 2)


class OffsetBias(NamedTuple):
    """By offset alone, of queries 0, 1, ... and keys 0, 1, ....

    Attributes:
      values: `[1, h or 1, keys + q - 1]`, that of the last query and first key first.
    """

    values: Array

    @classmethod
    def make(cls, bias: BiasFn, queries: int, padded: int) -> OffsetBias:
        """Of so many queries, and keys with padding."""
        offsets = jnp.arange(1 - queries, padded, dtype=jnp.int32)
        return cls(bias(offsets)[None])

    def block(self, start, size: int, queries: int) -> Array:
        """Of the keys from `start`: `[1, h or 1, size, q]`."""
        # Place `start` has the offset of key `start` from the last query.
        part = blocking.slice_axis(self.values, start, size + queries - 1, 2)
        return toeplitz(part, size, queries)

    def no_gradient(self, batch: tuple[int, int], dtype) -> Array:
        """Zeros `[b, h, offsets]`; summed at last, by the devices of both once."""
        return jnp.zeros((*batch, self.values.shape[2]), dtype)

    def add_gradient(self, total: Array, ds: Array, start) -> Array:
        """With that of the block from `start`, `[b, h, size, q]`."""
        # Blocks have offsets in common: [b, h, size, q] -> [b, h, size + q - 1], added.
        part = by_offset(ds)
        old = blocking.slice_axis(total, start, part.shape[2], 2)
        return jax.lax.dynamic_update_slice_in_dim(total, old + part, start, 2)


def summed_to(x: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of broadcasting `shape` to that of `x`."""
    axes = [i for i, size in enumerate(shape) if size == 1 and x.shape[i] != 1]
    return jnp.sum(x, axis=axes, keepdims=True) if axes else x
