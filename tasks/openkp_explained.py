"""The keyphrases that a model gives a page, and where the page has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.explained import Candidate, Document, Explained, Passage
from tasks.openkp_decoding import Phrase, decode_each
from tasks.openkp_features import OpenkpWindow, find_occurrences
from tasks.openkp_records import Record


def explain(
    logits: np.ndarray, windows: Sequence[OpenkpWindow], setting: None = None
) -> list[Explained]:
    """For each window its keyphrases, and the page's elements with the places of them.

    The probability of a phrase is that of all its places together.

    Raises:
      ValueError: if the logits are not of these windows.
    """
    found = decode_each(logits, windows, (setting,))
    return [
        Explained(
            window.record.id,
            "Which phrases is this page about?",
            ", ".join(" ".join(phrase) for phrase in phrases),
            (_page(window.record, phrases),),
            _candidates(row, window, phrases),
        )
        for row, window, [phrases] in zip(logits, windows, found, strict=True)
    ]


def _candidates(
    logits: np.ndarray, window: OpenkpWindow, phrases: Sequence[Phrase]
) -> tuple[Candidate, ...]:
    odds = np.exp(np.float64(logits) - np.max(logits))
    probabilities = odds / np.sum(odds)
    whole = np.array([[0, len(window.words)]])
    candidates = []
    for phrase in phrases:
        [places] = find_occurrences([phrase], window.words, whole)
        total = float(np.sum(probabilities[places.length - 1, places.starts]))
        candidates.append(Candidate(" ".join(phrase), total))
    return tuple(sorted(candidates, key=lambda c: -c.probability))


def _page(record: Record, phrases: Sequence[Phrase]) -> Document:
    words = record.text.split(" ")
    passages = []
    for start, stop in record.elements.tolist():
        own = words[start:stop]
        marks = _marks(own, phrases)
        passages.append(Passage(" ".join(own), is_support=bool(marks), marks=marks))
    return Document(Passage(record.id), tuple(passages))


def _marks(words: list[str], phrases: Sequence[Phrase]) -> tuple[tuple[int, int], ...]:
    """Characters of the phrases in the text of an element, none twice."""
    is_marked = np.zeros(len(words), bool)
    for phrase in phrases:
        whole = np.array([[0, len(words)]])
        for places in find_occurrences([phrase], words, whole):
            for start in places.starts:
                is_marked[start : start + places.length] = True
    stops = np.cumsum([len(word) + 1 for word in words]) - 1
    edges = np.diff(np.concatenate([[0], is_marked, [0]]))
    first, last = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0) - 1
    return tuple(
        (int(stops[a]) - len(words[a]), int(stops[b]))
        for a, b in zip(first, last, strict=True)
    )
