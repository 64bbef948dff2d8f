"""From WikiHop outputs to predictions, and to a file."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.data.windows.window import Window
from tasks.wikihop.inputs import WikihopWindow
from tasks.wikihop.records import Record

_SURE = 20.0


def decode(logits: np.ndarray, windows: Sequence[WikihopWindow]) -> dict[str, str]:
    """The candidate with the largest logit, as the file spells it, by record id.

    Args:
      logits: `[b, g]`, a number a global token; only those of candidates count.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    found = decode_each(logits, windows)
    return {w.record.id: answer for w, [answer] in zip(windows, found, strict=True)}


def decode_each(
    logits: np.ndarray,
    windows: Sequence[WikihopWindow],
    settings: Sequence[None] = (None,),
) -> list[list[str]]:
    """The prediction of each setting, of which there is one, for each window.

    Raises:
      ValueError: see `decode`.
    """
    rows = candidate_logits(logits, windows)
    best = [
        window.record.candidates[int(np.argmax(row))]
        for window, row in zip(windows, rows, strict=True)
    ]
    return [[answer] * len(settings) for answer in best]


def candidate_logits(
    logits: np.ndarray, windows: Sequence[WikihopWindow]
) -> list[np.ndarray]:
    """Of each window the logits of its candidates, in their order, as float64.

    Raises:
      ValueError: see `decode`.
    """
    is_candidate = [w.types.global_ == GLOBAL_CANDIDATE_TYPE for w in windows]
    return chosen_logits(logits, windows, is_candidate)


def chosen_logits(
    logits: np.ndarray, windows: Sequence[Window], is_candidate: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Of each window the logits of its candidates, in their order, as float64.

    Args:
      logits: `[b, m]`.
      windows: they are of.
      is_candidate: bool `[m]` of each window.

    Raises:
      ValueError: see `decode`.
    """
    expected = (len(windows), len(is_candidate[0]) if windows else 0)
    if windows and tuple(logits.shape) != expected:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, expected {expected}: give the "
            "outputs of these windows, in their order"
        )
    rows = []
    for row, window, chosen in zip(
        np.float64(logits), windows, is_candidate, strict=True
    ):
        rows.append(row[chosen])
        if not np.isfinite(rows[-1]).all():
            raise ValueError(
                f"logits of {window.record.id!r} hold NaN or infinity; expected numbers"
            )
    return rows


def official_gold(record: Record) -> dict[str, str] | None:
    """What scoring needs of a record; None without a gold answer."""
    if record.answer is None:
        return None
    return {"id": record.id, "answer": record.answer}


def write(predictions: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes {id: candidate}, as the QAngaroo leaderboard takes it."""
    pathlib.Path(path).write_text(json.dumps(dict(predictions)), encoding="utf-8")


def gold_outputs(windows: Sequence[WikihopWindow]) -> np.ndarray:
    """Logits `[b, g]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    return sure_logits(windows, len(windows[0].tokens.global_) if windows else 0)


def sure_logits(windows: Sequence[Window], width: int) -> np.ndarray:
    """Logits `[b, width]` that are large at the label `candidate` of each window.

    Raises:
      ValueError: if a window has no gold answer.
    """
    for window in windows:
        if window.record.label is None:
            raise ValueError(f"{window.record.id!r} has no gold answer")
    labels = np.array([w.labels["candidate"] for w in windows]).reshape(-1, 1)
    return _SURE * (np.arange(width) == labels)
