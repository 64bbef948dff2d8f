"""How elements of a page look, as the model takes it."""

from __future__ import annotations

import numpy as np

from etc_jax.ops.visual import FLAGS
from etc_jax.tasks.openkp.records import FEATURES

# A font has the id of the first of these sizes that is not smaller.
FONT_SIZES = (0, *range(8, 25), 29, 34, 39, 44, 49)

# What boxes are clipped to, in pixels; the same for the parent's (official code).
BOX_RANGES = {
    "x": (-50.0, 1500.0),
    "y": (-50.0, 6000.0),
    "width": (0.0, 1500.0),
    "height": (0.0, 18000.0),
}

# What the model calls the flags of an element and of its parent.
_NAMES = (*FEATURES, *(f"parent_{name}" for name in FEATURES))
_BOXES = [start + FEATURES.index(name) for start in (0, 10) for name in BOX_RANGES]
_SPANS = np.array([*BOX_RANGES.values()] * 2)


def font_ids(sizes: np.ndarray) -> np.ndarray:
    """Sizes, rounded to whole ones, as ids below 24: `[k]` -> uint8 `[k]`."""
    return np.searchsorted(FONT_SIZES, np.rint(sizes), side="left").astype(np.uint8)


def boxes(features: np.ndarray) -> np.ndarray:
    """x, y, width, height of elements, then of their parents, clipped, as they are.

    Args:
      features: `[k, 20]`, see `records.Record`.

    Returns:
      float32 `[k, 8]`, linear from -1, the lower end of `BOX_RANGES`, to 1.
    """
    low, high = _SPANS.T[:, None, :]
    shares = (np.clip(features[:, _BOXES], low, high) - low) / (high - low)
    return (2.0 * shares - 1.0).astype(np.float32)


def flags(features: np.ndarray) -> np.ndarray:
    """The flags of each element as bits, in the order of `ops.visual.FLAGS`.

    Args:
      features: `[elements, features]`, as of a record.

    Returns:
      uint8 `[elements]`.
    """
    bits = [features[:, _NAMES.index(name)].astype(np.uint8) for name in FLAGS]
    return np.packbits(np.stack(bits, axis=-1), axis=-1, bitorder="little")[:, 0]


def visual_arrays(features: np.ndarray, g: int) -> dict[str, np.ndarray]:
    """The fields of `ops.visual.Visual` of one page.

    Args:
      features: `[k, 20]`, of the elements in the input, k <= g.
      g: global tokens, padding included.

    Returns:
      uint8 `font`, `parent_font`, `flags` `[g]` and float32 `boxes` `[g, 8]`; zeros in
      the padding.
    """
    font = _NAMES.index("font_size")
    arrays = {
        "font": font_ids(features[:, font]),
        "parent_font": font_ids(features[:, font + len(FEATURES)]),
        "flags": flags(features),
        "boxes": boxes(features),
    }
    return {
        name: np.pad(x, [(0, g - len(x)), *[(0, 0)] * (x.ndim - 1)])
        for name, x in arrays.items()
    }
