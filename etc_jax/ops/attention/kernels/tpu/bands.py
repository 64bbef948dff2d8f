"""Label logits by distance, and their gradients, of 128 queries on the lanes of a TPU.

Key row j and query i have the label of j - i, clipped to k places: a band along the
diagonal between two constants. Column i of the band is that of column 0, i rows
further down. So each lane is moved by its own number of rows, one binary digit of the
number after another: a move by eight rows or more is another choice of registers, and
costs a select. The transpose moves back. No label is compared with 2k + 1 values.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

from etc_jax.ops.attention.kernels.tpu.registers import LANES, SUBLANES, iota, round_up

Array = jax.Array

# Digits of a lane's number: moves within a register, and of whole registers.
_WITHIN, _WHOLE = (1, 2, 4), (8, 16, 32, 64)


def _sizes(k: int) -> tuple[int, int]:
    """(row of distance 0, number of rows) of a column of label logits."""
    lead = round_up(k, SUBLANES)
    # After distance k at least one register, whose rows move within registers.
    return lead, round_up(lead + k + SUBLANES, SUBLANES)


def labels(k: int) -> list[int]:
    """The label of each row of a column: those of -k to k, the ends repeated."""
    lead, size = _sizes(k)
    distances = (min(max(row - lead, -k), k) for row in range(size))
    return [x if x >= 0 else k - x for x in distances]


def _moved(x: Array, digit: int) -> Array:
    """bool of the shape of x: lanes whose number has the digit."""
    return iota(x.shape, 1) & digit != 0


def _cut(x: Array, start: int, rows: int, above: Array, below: Array) -> Array:
    """Rows from `start` of x; `[1, 128]` above where it is negative, or below."""
    end = start + rows
    parts = [
        (above, min(max(-start, 0), rows)),
        (x[max(start, 0) : max(end, 0)], None),
        (below, min(max(end - x.shape[0], 0), rows)),
    ]
    return jnp.concatenate(
        [
            part if count is None else jnp.broadcast_to(part, (count, LANES))
            for part, count in parts
            if (part.shape[0] if count is None else count)
        ]
    )


def logits(k: int, column: Array, first: int, rows: int) -> Array:
    """The label logit of each pair.

    Args:
      k: distance from which on labels are clipped.
      column: float32 `[labels(k) or more, 128]`, by the rows of `labels`.
      first: distance of key row 0 from query 0, a multiple of 8.
      rows: of keys, a multiple of 8.

    Returns:
      float32 `[rows, 128]`.
    """
    lead, size = _sizes(k)
    left, right = column[:1], column[size - 1 : size]
    # What a move within registers brings to the top comes from the end.
    x = jnp.concatenate([column[:size], jnp.broadcast_to(left, (SUBLANES, LANES))])
    for digit in _WITHIN:
        x = jnp.where(_moved(x, digit), pltpu.roll(x, digit, 0), x)
    x = x[:size]
    for digit in _WHOLE:
        ends = (jnp.broadcast_to(end, (digit, LANES)) for end in (left, right))
        before, after = ends
        down, same = jnp.concatenate([before, x]), jnp.concatenate([x, after])
        x = jnp.where(_moved(same, digit), down, same)
    return _cut(x, first + lead, rows, left, right)


def gradient(k: int, block: Array, first: int) -> Array:
    """The transpose of `logits`: float32 `[rows, 128]` -> `[labels(k), 128]`."""
    lead, size = _sizes(k)
    none = jnp.zeros((1, LANES), block.dtype)
    x = _cut(block, -lead - first, size + LANES - SUBLANES, none, none)
    for digit in reversed(_WHOLE):
        x = jnp.where(_moved(x[digit:], digit), x[digit:], x[:-digit])
    for digit in reversed(_WITHIN):
        x = jnp.where(_moved(x, digit), pltpu.roll(x, size - digit, 0), x)
    row = iota(x.shape, 0)
    # Rows of clipped distances have not all of their pairs: these are summed apart.
    x = jnp.where((row > lead - k) & (row < lead + k), x, 0)
    left, right = _clipped(k, block, first)
    return jnp.where(row == 0, left, jnp.where(row == size - 1, right, x))


def _clipped(k: int, block: Array, first: int) -> tuple[Array, Array]:
    """Sums `[1, 128]` over the keys that are k places or more before, and after."""
    rows = block.shape[0]
    # Rows before `start` are so for all queries, and rows from `end` on.
    start = min(max(-k - first + 1, 0), rows) // SUBLANES * SUBLANES
    end = max(start, min(round_up(max(LANES - 1 + k - first, 0), SUBLANES), rows))
    middle = block[start:end]
    distance = iota(middle.shape, 0) + (start + first) - iota(middle.shape, 1)

    def total(seen, rest):
        parts = [jnp.where(seen, middle, 0), rest]
        return sum(jnp.sum(x, axis=0, keepdims=True) for x in parts if x.shape[0])

    left = total(distance <= -k, block[:start])
    return left, total(distance >= k, block[end:])
