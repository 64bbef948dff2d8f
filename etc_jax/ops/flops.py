"""FLOPs of maps and attention, and the pairs of tokens that see each other.

What `models.useful_flops` is made of: all of it counts a batch in numpy.
"""

from typing import Any

import numpy as np


def projection(rows: float, inputs: int, outputs: int) -> float:
    """Of `rows` times a matrix `[inputs, outputs]`."""
    return 2.0 * rows * inputs * outputs


def attention(pairs: float, config: Any) -> float:
    """Of the logits and the weighted sum of values of all heads, for visible pairs."""
    return 4.0 * pairs * config.num_heads * config.attention_head_dim


def pairs_within(
    groups: np.ndarray, first: np.ndarray, last: np.ndarray, step: int = 1
) -> int:
    """Pairs (i, j) of one group with first[i] <= j <= last[i].

    Args:
      groups: int `[b, n]`; tokens of one row and one number are a group, 0 is none.
      first: int `[n]`, the first token that token i may see.
      last: int `[n]`, the last one.
      step: from i to j are multiples of it.
    """
    n = groups.shape[1]
    # [tokens], [tokens]: padding is gone.
    row, position = np.nonzero(groups)
    # Tokens of a group side by side, in ascending order.
    keys = np.stack([row, groups[row, position], position % step], axis=1)
    _, number = np.unique(keys, axis=0, return_inverse=True)
    span = 3 * n  # further apart than any two places
    # Each group has a stretch of the line to itself, so that one search serves all.
    at = number.ravel().astype(np.int64) * span
    sorted_at = np.sort(at + position)
    low = np.searchsorted(sorted_at, at + np.maximum(first[position], -n + 1), "left")
    high = np.searchsorted(sorted_at, at + np.minimum(last[position], 2 * n), "right")
    return int(np.sum(np.maximum(high - low, 0)))


def pairs_between(a: np.ndarray, b: np.ndarray) -> int:
    """Pairs of one of `a` `[b, n]` and one of `b` `[b, m]` with one number, not 0."""
    width = 1 + max(int(a.max(initial=0)), int(b.max(initial=0)))
    counts = []
    for ids in (a, b):
        # [b, n] -> numbers that differ between rows of the batch too.
        flat = np.arange(len(ids))[:, None] * width + ids
        counts.append(np.bincount(flat[ids > 0], minlength=len(ids) * width))
    # [b * width] each: a group of x and y tokens has x * y pairs.
    return int(np.sum(counts[0].astype(np.int64) * counts[1]))
