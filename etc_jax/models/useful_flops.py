"""Useful FLOPs of a batch: what model FLOPs utilisation (MFU) is a share of.

Matrix products that the definition of a model asks for, 2 FLOPs a multiplication:
each matrix of parameters times the real tokens that it is applied to, and 2 products
of the head's size a pair of tokens that see each other. Padding, what is computed
again in the backward pass, and keys that are computed only to be masked count
nothing, so that no choice of an implementation changes the metric (Chowdhery et al.
2022, appendix B). The backward pass is twice the forward pass.

Each family registers `Flops` under its name, kind "useful_flops".
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from etc_jax.base import registry

# Forward and backward pass.
PASSES = 3


class Flops(Protocol):
    """FLOPs of a family's forward pass; the functions are static.

    Attributes:
      body: (config, inputs) -> of the encoder on a batch. Inputs are `SequenceInputs`
        in numpy, or ETC's `Structure`s, one for each input. Those of an encoder-decoder
        are a pair, of what the encoder and what the decoder reads, and both count.
      masked_logits: config -> of the vocabulary's logits of one masked token.
      causal_logits: config -> of the logits of the token after another one; families
        without language models have none.
    """

    body: Callable[[Any, Any], float]
    masked_logits: Callable[[Any], float]
    causal_logits: Callable[[Any], float]


def of_step(
    config: Any, family: str, inputs: Any, *, reads: int = 1, **predicted: float
) -> float | None:
    """Of a training step; None if the family registers nothing.

    Args:
      config: of the model.
      family: its name.
      inputs: of `Flops.body`.
      reads: how often the loss asks for the model's outputs.
      **predicted: tokens whose logits over the vocabulary the loss needs, by
        `masked_logits` or `causal_logits`.
    """
    if family not in registry.names("useful_flops"):
        return None
    flops = registry.lookup("useful_flops", family)
    heads = (n * getattr(flops, name)(config) for name, n in predicted.items())
    return PASSES * reads * (flops.body(config, inputs) + sum(heads))


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
