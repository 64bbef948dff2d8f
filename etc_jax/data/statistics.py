"""Baselines that follow from the text alone."""

from __future__ import annotations

import numpy as np

_CHUNK_TOKENS = 1 << 22


def unigram_entropy(tokens: np.ndarray) -> float:
    """Entropy in nats of the ids of a text: `-sum p log p`, p relative frequencies.

    The lowest cross entropy that any model reaches on this text without looking at
    the context: an MLM loss on held-back text is worth something only below it.

    Args:
      tokens: int `[tokens]`, such as `TokenCache.tokens`.

    Raises:
      ValueError: if there are no tokens.
    """
    if not len(tokens):
        raise ValueError("the unigram entropy of no tokens is not defined")
    counts = np.zeros(0, np.int64)
    for start in range(0, len(tokens), _CHUNK_TOKENS):
        chunk = tokens[start : start + _CHUNK_TOKENS]
        found = np.bincount(chunk, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    p = counts[counts > 0] / len(tokens)
    return float(-(p * np.log(p)).sum())


def log_frequencies(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """log of each id's share of a text, every id counted once more than it occurs.

    Args:
      tokens: integer ids, any shape.
      vocab_size: number of ids.

    Returns:
      float32 `[vocab_size]`, in nats.
    """
    counts = np.bincount(np.ravel(tokens), minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)
