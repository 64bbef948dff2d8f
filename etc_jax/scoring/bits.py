"""Bits a symbol: what a language model of characters or bytes is measured by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def bits_per_symbol(
    nats: Sequence[float], scored: Sequence[bool] | None = None
) -> float:
    """Mean of -log2 p over the symbols that are scored.

    Args:
      nats: -ln p of each symbol.
      scored: which symbols count, as where windows overlap; None: all.

    Raises:
      ValueError: if nothing is scored, or something is not a finite number from 0 on.
    """
    nats = np.asarray(nats, np.float64)
    if scored is not None:
        scored = np.asarray(scored, bool)
        if scored.shape != nats.shape:
            raise ValueError(
                f"scored has shape {scored.shape}, expected {nats.shape} as nats has"
            )
        nats = nats[scored]
    if not nats.size:
        raise ValueError("at least one scored symbol expected, got none")
    if not (np.isfinite(nats) & (nats >= 0)).all():
        raise ValueError("nats are -ln p: expected finite numbers, 0 or more")
    # fsum: a corpus has 10^8 symbols, whose sum would lose digits.
    return math.fsum(nats) / nats.size / math.log(2)
