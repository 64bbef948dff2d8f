"""From OpenKP logits to keyphrases, and to a file."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets import json_lines
from etc_jax.ops.ngrams import MAX_WORDS, NO_NGRAM
from tasks.openkp.pages import PageWindow
from tasks.openkp.records import Record

MAX_PREDICTED = 5
# The best runs of words that are looked at: some are the same phrase.
MAX_RUNS = 100

_SURE = 20.0

Phrase = list[str]


def decode(
    logits: np.ndarray, windows: Sequence[PageWindow]
) -> dict[str, list[Phrase]]:
    """Up to five keyphrases of each page, best first, by url.

    Args:
      logits: `[b, 5, n]`: [_, k - 1, i] is that of words i to i + k - 1.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    found = decode_each(logits, windows)
    return {w.record.id: phrases for w, [phrases] in zip(windows, found, strict=True)}


def decode_each(
    logits: np.ndarray,
    windows: Sequence[PageWindow],
    settings: Sequence[None] = (None,),
) -> list[list[list[Phrase]]]:
    """The prediction of each setting, of which there is one, for each window.

    Raises:
      ValueError: see `decode`.
    """
    n = len(windows[0].labels["occurrences"]) if windows else 0
    expected = (len(windows), MAX_WORDS, n)
    if windows and tuple(logits.shape) != expected:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, expected {expected}: give the "
            "outputs of these windows, in their order"
        )
    found = []
    for row, window in zip(logits, windows, strict=True):
        if not np.isfinite(row).all():
            raise ValueError(
                f"logits of {window.record.id!r} hold NaN or infinity; expected numbers"
            )
        found.append([best_phrases(row, window.words)] * len(settings))
    return found


def best_phrases(
    logits: np.ndarray, words: Sequence[str], *, most: int = MAX_PREDICTED
) -> list[Phrase]:
    """The different phrases among the best runs of words, in lower case, best first.

    Args:
      logits: `[longest, n]`, a number a run; `NO_NGRAM` for those that are none.
      words: of the input.
      most: phrases.
    """
    n = logits.shape[1]
    found: dict[str, None] = {}
    # Stable: of equal ones the shorter, then the earlier.
    for place in np.argsort(-logits, axis=None, kind="stable")[:MAX_RUNS].tolist():
        length, start = place // n + 1, place % n
        if logits[length - 1, start] <= NO_NGRAM or len(found) == most:
            break
        run = words[start : start + length]
        phrase = " ".join(run).lower()
        if len(run) == length and phrase.strip():
            found[phrase] = None
    return [phrase.split(" ") for phrase in found]


def official(predictions: Mapping[str, Sequence[Phrase]]) -> list[dict[str, Any]]:
    """What the leaderboard takes: an object a page."""
    return [
        {"url": url, "KeyPhrases": [list(phrase) for phrase in phrases]}
        for url, phrases in predictions.items()
    ]


def write(predictions: Mapping[str, Sequence[Phrase]], path: str | os.PathLike) -> None:
    """Writes the official form, an object a line."""
    text = json_lines.text_of(official(predictions))
    pathlib.Path(path).write_text(text, encoding="utf-8")


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a page; None without gold keyphrases."""
    if record.keyphrases is None:
        return None
    return {
        "url": record.id,
        "KeyPhrases": [list(phrase) for phrase in record.keyphrases],
    }


def gold_outputs(windows: Sequence[PageWindow]) -> np.ndarray:
    """Logits `[b, 5, n]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold keyphrases.
    """
    n = len(windows[0].labels["occurrences"]) if windows else 0
    logits = np.full((len(windows), MAX_WORDS, n), NO_NGRAM, np.float32)
    for row, window in zip(logits, windows, strict=True):
        if window.record.keyphrases is None:
            raise ValueError(f"{window.record.id!r} has no gold keyphrases")
        labels = zip(window.labels["start"], window.labels["length"], strict=True)
        for place, (start, length) in enumerate(labels):
            if 0 < length <= MAX_WORDS:
                row[length - 1, start] = _SURE - place
    return logits
