"""How an element of a page looks, in a few numbers (ETC paper, appendix C, OpenKP).

A font is one of 24 sizes. Eight flags are kept in one byte: the three lowest bits,
block, heading and bold, are looked up together, and the others are features by
themselves, as are the boxes of the element and its parent.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

NUM_FONTS = 24
# Lowest bit first.
FLAGS = (
    *("bold", "heading", "block"),
    *("inline", "leaf", "parent_heading", "parent_leaf", "parent_bold"),
)
NUM_CROSSED = 3
NUM_CROSSES = 2**NUM_CROSSED
# Numbers of a box pair: x, y, width, height, and those of the parent.
NUM_BOXES = 8


class Visual(NamedTuple):
    """What elements look like.

    Attributes:
      font, parent_font: ids of sizes, below `NUM_FONTS`, `[..., g]`.
      flags: uint8 `[..., g]`, bits in the order of `FLAGS`.
      boxes: float32 `[..., g, 8]` in -1..1.
    """

    font: jax.Array
    parent_font: jax.Array
    flags: jax.Array
    boxes: jax.Array


def crosses(flags: jax.Array) -> jax.Array:
    """block * 4 + heading * 2 + bold: int32 of the shape of `flags`."""
    return flags.astype(jnp.int32) & (NUM_CROSSES - 1)


def dense_features(visual: Visual) -> jax.Array:
    """Boxes, then the flags that are not crossed as 0 or 1: float32 `[..., g, 13]`."""
    shift = jnp.arange(NUM_CROSSED, len(FLAGS), dtype=jnp.int32)
    flags = visual.flags.astype(jnp.int32)[..., None]
    shift = shift.reshape((1,) * (flags.ndim - 1) + (-1,))
    # [..., g, 1] >> [1, ..., 1, 5] -> [..., g, 5].
    bits = (flags >> shift) & 1
    return jnp.concatenate([visual.boxes, bits.astype(jnp.float32)], axis=-1)
