"""From WikiHop outputs to predictions, and to a file."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from etc_jax.data.token_types import GLOBAL_CANDIDATE_TYPE
from tasks.wikihop_features import WikihopWindow

_SURE = 20.0


def decode(logits: np.ndarray, windows: Sequence[WikihopWindow]) -> dict[str, str]:
    """The candidate with the largest logit, as the file spells it, by record id.

    Args:
      logits: `[b, g]`, a number a global token; only those of candidates count.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    expected = (len(windows), len(windows[0].tokens.global_) if windows else 0)
    if windows and tuple(logits.shape) != expected:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, expected {expected}: give the "
            "outputs of these windows, in their order"
        )
    predictions = {}
    for row, window in zip(np.float64(logits), windows, strict=True):
        candidates = row[window.types.global_ == GLOBAL_CANDIDATE_TYPE]
        if not np.isfinite(candidates).all():
            raise ValueError(
                f"logits of {window.record.id!r} hold NaN or infinity; expected numbers"
            )
        chosen = int(np.argmax(candidates))
        predictions[window.record.id] = window.record.candidates[chosen]
    return predictions


def write(predictions: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes {id: candidate}, as the QAngaroo leaderboard takes it."""
    pathlib.Path(path).write_text(json.dumps(dict(predictions)), encoding="utf-8")


def gold_outputs(windows: Sequence[WikihopWindow]) -> np.ndarray:
    """Logits `[b, g]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    for window in windows:
        if window.record.label is None:
            raise ValueError(f"{window.record.id!r} has no gold answer")
    g = len(windows[0].tokens.global_) if windows else 0
    labels = np.array([w.labels["candidate"] for w in windows]).reshape(-1, 1)
    return _SURE * (np.arange(g) == labels)
