"""From OpenKP logits to keyphrases, and to the official file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.decoding import SURE, check_outputs, require_gold
from etc_jax.ops.ngrams import MAX_WORDS, NO_NGRAM
from etc_jax.scoring import openkp as scoring
from etc_jax.tasks.openkp.pages import PageWindow, find_occurrences
from etc_jax.tasks.openkp.records import MAX_KEYPHRASES, Record

MAX_PREDICTED = 5
# The best runs of words that are looked at: some are the same phrase.
MAX_RUNS = 100

Phrase = list[str]


def keyphrases(logits: np.ndarray, windows: Sequence[PageWindow]) -> list[list[Phrase]]:
    """Up to five keyphrases of each page, best first.

    Args:
      logits: `[b, 5, n]`: [_, k - 1, i] is that of words i to i + k - 1.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    n = len(windows[0].labels["occurrences"]) if windows else 0
    check_outputs({"": logits}, windows, {"": (MAX_WORDS, n)})
    return [best_phrases(row, w.words) for row, w in zip(logits, windows, strict=True)]


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
    phrases: dict[str, None] = {}
    # Stable: of equal ones the shorter, then the earlier.
    for index in np.argsort(-logits, axis=None, kind="stable")[:MAX_RUNS].tolist():
        length, start = index // n + 1, index % n
        if logits[length - 1, start] <= NO_NGRAM or len(phrases) == most:
            break
        run = words[start : start + length]
        phrase = " ".join(run).lower()
        if len(run) == length and phrase.strip():
            phrases[phrase] = None
    return [phrase.split(" ") for phrase in phrases]


def official(predictions: Mapping[str, Sequence[Phrase]]) -> list[dict[str, Any]]:
    """What the leaderboard takes: an object a page."""
    return [
        {"url": url, "KeyPhrases": [list(phrase) for phrase in phrases]}
        for url, phrases in predictions.items()
    ]


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
    require_gold(windows, official_gold)
    n = len(windows[0].labels["occurrences"]) if windows else 0
    logits = np.full((len(windows), MAX_WORDS, n), NO_NGRAM, np.float32)
    for row, window in zip(logits, windows, strict=True):
        labels = zip(window.labels["start"], window.labels["length"], strict=True)
        for rank, (start, length) in enumerate(labels):
            if 0 < length <= MAX_WORDS:
                row[length - 1, start] = SURE - rank
    return logits


def why_lost(
    windows: Sequence[PageWindow], prediction: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Why keyphrases of a page are not in its prediction, one reason each.

    Recall is what labels can lose: `R@3` and `R@5` are 1 if and only if none has.
    Precision is divided by k whatever the number of keyphrases.
    """
    [window] = windows
    predicted = scoring.normalised(prediction)
    for phrase in scoring.normalised(window.record.keyphrases or ()):
        if phrase not in predicted:
            yield f"{phrase!r} {_reason(phrase, window)}"


def _reason(phrase: str, window: PageWindow) -> str:
    record, words = window.record, window.record.text.split(" ")
    if len(phrase.split(" ")) > MAX_WORDS:
        return f"has more than {MAX_WORDS} words"
    if not find_occurrences([[phrase]], words, record.elements):
        is_in_text = f" {phrase} " in f" {record.text.lower()} "
        return "is in no element as a whole" if is_in_text else "is not in the text"
    fit = record.elements[: window.num_elements]
    if not find_occurrences([[phrase]], words, fit):
        return "did not fit into the input"
    if np.all(window.labels["length"] > 0):
        return f"comes after {MAX_KEYPHRASES} others"
    return "has a word that the tokenizer has no piece for"
