"""What sparse blocks see, a step of them at a time, in parts of one softmax.

The three blocks around a block are slices; the common blocks are the same for all; the
blocks that were drawn are gathered.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking
from etc_jax.ops.attention.parts.softmax import SoftmaxOptions

Array = jax.Array

# Blocks around a block, itself among them.
BAND = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockOptions(SoftmaxOptions):
    """Static choices, and which blocks are which.

    Rows are computed of inner blocks: those from `first` to the one before the last.

    Attributes:
      first: number of the first inner block, 1 or more.
      common: numbers of the blocks that all inner ones see.
    """

    first: int
    common: tuple[int, ...]

    def start(self, index) -> Array:
        """int scalar, the first block of a step."""
        return self.first + index * self.chunk_blocks


class Blocks(NamedTuple):
    """What the pairs of blocks are judged by.

    Attributes:
      example: int `[b, places]`; 0 is padding.
      drawn: int `[h, inner, r]`, blocks that each inner block sees besides.
    """

    example: Array
    drawn: Array


class KeyGroup(NamedTuple):
    """Keys of a step that all its blocks see in one way.

    Attributes:
      key, value: `[b, h, C, w, d]`, or `[b, h, w, d]` if they are the same for all.
      mask: bool `[b, h or 1, C, w, q]`.
    """

    key: Array
    value: Array
    mask: Array

    @property
    def letters(self) -> str:
        return "bhcwd" if self.key.ndim == 5 else "bhwd"


def blocked(x: Array, size: int, axis: int) -> Array:
    """`[..., blocks * size, ...]` -> `[..., blocks, size, ...]`, at `axis`."""
    return blocking.blocks(x, x.shape[axis] // size, axis)


class Inputs(NamedTuple):
    """Everything by blocks, inner ones padded to whole steps.

    Attributes:
      key, value: `[b, h, blocks + padding, s, d]`.
      example: `[b, blocks + padding, s]`.
      drawn: `[h, inner + padding, r]`.
      count: of all blocks.
    """

    key: Array
    value: Array
    example: Array
    drawn: Array
    count: int

    @classmethod
    def make(cls, options: BlockOptions, key, value, blocks: Blocks) -> Inputs:
        """Of keys and values `[b, h, places, d]`."""
        count = key.shape[2] // options.block_size
        # The last step then has blocks and neighbours of its own: no slice is clamped.
        extra = -(count - 1 - options.first) % options.chunk_blocks
        pad = functools.partial(blocking.pad_axis, before=0, after=extra)
        return cls(
            pad(blocked(key, options.block_size, 2), axis=2),
            pad(blocked(value, options.block_size, 2), axis=2),
            pad(blocked(blocks.example, options.block_size, 1), axis=1),
            pad(blocks.drawn, axis=1),
            count,
        )

    def steps(self, options: BlockOptions) -> int:
        """How many there are."""
        return self.drawn.shape[1] // options.chunk_blocks

    def drawn_ids(self, options: BlockOptions, index) -> Array:
        """`[h, C, r]` of a step."""
        size = options.chunk_blocks
        return blocking.slice_axis(self.drawn, index * size, size, 1)


def parts_of(options: BlockOptions, inputs: Inputs, index) -> list[KeyGroup]:
    """What the blocks of a step see: three of the band, the common, the drawn."""
    size, count, first = options.chunk_blocks, inputs.count, options.start(index)
    # `[b, 1, C, 1, q]`.
    q_example = blocking.slice_axis(inputs.example, first, size, 1)[:, None, :, None]
    # Number of each block, `[1, 1, C, 1, 1]`.
    number = (first + jnp.arange(size))[None, None, :, None, None]
    # Blocks that fill up the last step see nothing.
    real = number < count - 1

    def same(example):
        """`[b, h or 1, C or 1, w]` of keys with the queries."""
        k = example[..., None]
        return (k == q_example) & (k > 0)

    parts = []
    for step in range(-1, BAND - 1):
        k, v = (
            blocking.slice_axis(x, first + step, size, 2)
            for x in (inputs.key, inputs.value)
        )
        example = blocking.slice_axis(inputs.example, first + step, size, 1)
        # Keys [b, h, C, s, d], mask [b, 1, C, s, q].
        parts.append(KeyGroup(k, v, same(example[:, None]) & real))
    common = jnp.asarray(options.common)
    # The same for all blocks: [b, h, common * s, d] and [b, common * s].
    k, v, example = (
        blocking.unblock(jnp.take(x, common, axis=axis), axis)
        for x, axis in ((inputs.key, 2), (inputs.value, 2), (inputs.example, 1))
    )
    # A common block that is in the band is not seen a second time.
    block = jnp.repeat(common, options.block_size)
    # [1, 1, C, common * s, 1].
    far = jnp.abs(number - block[None, None, None, :, None]) > 1
    parts.append(KeyGroup(k, v, same(example[:, None, None]) & real & far))
    if inputs.drawn.shape[2]:
        ids = inputs.drawn_ids(options, index)
        h, c, r = ids.shape
        # [b, blocks, s] at [h, C, r] -> [b, h, C, r * s].
        example = inputs.example[:, ids].reshape(-1, h, c, r * options.block_size)
        k, v = _taken(inputs.key, ids), _taken(inputs.value, ids)
        parts.append(KeyGroup(k, v, same(example) & real))
    return parts


def _taken(x: Array, ids: Array) -> Array:
    """`[b, h, blocks, s, d]` at `[h, C, r]` -> `[b, h, C, r * s, d]`."""
    h, c, r = ids.shape
    b, size, d = x.shape[0], x.shape[3], x.shape[4]
    # Mapped over heads, not indexed by them: so they stay split over devices.
    take = jax.vmap(lambda x, ids: x[:, ids], in_axes=(1, 0), out_axes=1)
    # [b, h, C * r, s, d] -> [b, h, C, r * s, d].
    return take(x, ids.reshape(h, -1)).reshape(b, h, c, r * size, d)


def add_part(
    options: BlockOptions, inputs: Inputs, total: Array, index, i: int, gradient: Array
) -> Array:
    """Adds the gradient of part `i` of a step where its keys came from.

    Args:
      options: static choices.
      inputs: that the parts are of.
      total: `[b, h, blocks + padding, s, d]`.
      index: of the step.
      i: place in what `parts_of` gives.
      gradient: as the keys of the part.
    """
    if i < BAND:
        start = options.start(index) + i - 1
        old = blocking.slice_axis(total, start, options.chunk_blocks, 2)
        return jax.lax.dynamic_update_slice_in_dim(total, old + gradient, start, 2)
    if i == BAND:
        parts = blocking.blocks(gradient, len(options.common), 2)
        return total.at[:, :, jnp.asarray(options.common)].add(parts)
    ids = inputs.drawn_ids(options, index)
    h, c, r = ids.shape
    # [b, h, C, r * s, d] -> [b, h, C * r, s, d]; a block that several blocks drew has
    # the sum of theirs.
    parts = gradient.reshape(*gradient.shape[:2], c * r, -1, gradient.shape[-1])
    add = jax.vmap(lambda x, ids, y: x.at[:, ids].add(y), (1, 0, 1), out_axes=1)
    return add(total, ids.reshape(h, -1), parts)
