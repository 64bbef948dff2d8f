"""Why a gold answer is lost between record and input; see `tasks.upper_bound`.

Recall is what labels can lose: `R@3` and `R@5` are 1 if and only if none has.
Precision is divided by k whatever the number of keyphrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from etc_jax.ops.ngrams import MAX_WORDS
from etc_jax.scoring import openkp as scoring
from tasks.openkp.pages import PageWindow, find_occurrences
from tasks.openkp.records import MAX_KEYPHRASES


def why_lost(
    windows: Sequence[PageWindow], given: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Why keyphrases of a page are not in its prediction, one reason each."""
    [window] = windows
    predicted = scoring.normalised(given)
    for phrase in scoring.normalised(window.record.keyphrases or ()):
        if phrase not in predicted:
            yield f"{phrase!r} {_reason(phrase, window)}"


def _reason(phrase: str, window: PageWindow) -> str:
    record, words = window.record, window.record.text.split(" ")
    if len(phrase.split(" ")) > MAX_WORDS:
        return f"has more than {MAX_WORDS} words"
    if not find_occurrences([[phrase]], words, record.elements):
        there = f" {phrase} " in f" {record.text.lower()} "
        return "is in no element as a whole" if there else "is not in the text"
    fit = record.elements[: window.num_elements]
    if not find_occurrences([[phrase]], words, fit):
        return "did not fit into the input"
    if np.all(window.labels["length"] > 0):
        return f"comes after {MAX_KEYPHRASES} others"
    return "has a word that the tokenizer has no piece for"
