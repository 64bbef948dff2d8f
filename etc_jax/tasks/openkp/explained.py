"""The keyphrases that a model gives a page, and where the page has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import (
    Box,
    Candidate,
    Explained,
    ExplainedDocument,
    Passage,
    Sheet,
    Wording,
)
from etc_jax.scoring.openkp import normalised
from etc_jax.tasks.openkp.decoding import Phrase, keyphrases
from etc_jax.tasks.openkp.pages import PageWindow, find_occurrences
from etc_jax.tasks.openkp.records import FEATURES, Record

Span = tuple[int, int]
Ranks = tuple[int, ...]

# Larger than what pages have (see `visual.BOX_RANGES`): a few of their elements
# stand far outside, to be hidden, and would make all others tiny.
_LARGEST = Sheet(width=2000.0, height=20_000.0)

WORDING = Wording(
    question="Page",
    answer="",
    support="",
    candidates="{} keyphrases, the best first",
    drawing="The page, as it is laid out",
    legend="Marked: where the page has a keyphrase, with its place in the list. "
    "Keyphrases are ranked by their best place; the number after one is the "
    "probability of all its places together. Drawn: the elements that have a place "
    "on the page; below it stand all of them, in the order in which the model reads.",
    headed_by_id=True,
)


def explain(
    logits: np.ndarray, windows: Sequence[PageWindow], setting: None = None
) -> list[Explained]:
    """For each window its keyphrases, and the page's elements with the places of them.

    Phrases are ranked as in the prediction, by the best place of each; the probability
    of one is that of all its places together.

    Args:
      logits: `[b, 5, n]`, see `keyphrases`.
      windows: as `features` made them, in order.
      setting: of decoding, of which there is none.

    Raises:
      ValueError: if the logits are not of these windows.
    """
    del setting
    every = keyphrases(logits, windows)
    explanations = []
    for row, window, phrases in zip(logits, windows, every, strict=True):
        record, candidates = window.record, _candidates(row, window, phrases)
        gold = record.keyphrases
        explanations.append(
            Explained(
                record.id,
                "Which phrases is this page about?",
                _listed(phrases),
                (_page(record, phrases),),
                candidates,
                reference=None if gold is None else _listed(gold),
                confidence=sum(x.probability for x in candidates),
                wording=WORDING,
            )
        )
    return explanations


def _listed(phrases: Sequence[Sequence[str]]) -> str:
    return ", ".join(" ".join(phrase) for phrase in phrases)


def _candidates(
    logits: np.ndarray, window: PageWindow, phrases: Sequence[Phrase]
) -> tuple[Candidate, ...]:
    probabilities = softmax(logits)
    whole = np.array([[0, len(window.words)]])
    gold = {*normalised(window.record.keyphrases or ())}
    candidates = []
    for phrase in phrases:
        [occurrences] = find_occurrences([phrase], window.words, whole)
        total = float(np.sum(probabilities[occurrences.length - 1, occurrences.starts]))
        is_gold = bool({*normalised([phrase])} & gold)
        candidates.append(Candidate(" ".join(phrase), total, is_gold))
    return tuple(candidates)


def _page(record: Record, phrases: Sequence[Phrase]) -> ExplainedDocument:
    words = record.text.split(" ")
    passages = []
    for (start, stop), look in zip(
        record.elements.tolist(), record.features, strict=True
    ):
        element = words[start:stop]
        occurrences = list(_marks(element, phrases))
        marks = tuple(mark for mark, _ in occurrences)
        ranks = tuple(rank for _, rank in occurrences)
        text = " ".join(element)
        box = _box(look) if text.strip() else None
        passages.append(Passage(text, marks=marks, ranks=ranks, box=box))
    boxes = [passage.box for passage in passages if passage.box is not None]
    return ExplainedDocument(
        Passage("Text"), tuple(passages), paragraphs=True, sheet=_sheet(boxes)
    )


def _box(look: np.ndarray) -> Box | None:
    """Where an element stands, of its `FEATURES`; None if nothing is seen of it."""
    names = ("x", "y", "width", "height", "font_size")
    box = Box(*(float(look[FEATURES.index(name)]) for name in names))
    has_area = min(box.width, box.height, box.font_size) > 0
    begins = box.left < _LARGEST.width and box.top < _LARGEST.height
    ends = box.left + box.width > 0 and box.top + box.height > 0
    return box if has_area and begins and ends else None


def _sheet(boxes: Sequence[Box]) -> Sheet | None:
    """As much of the page as has boxes."""
    if not boxes:
        return None
    right = max(box.left + box.width for box in boxes)
    bottom = max(box.top + box.height for box in boxes)
    return Sheet(min(right, _LARGEST.width), min(bottom, _LARGEST.height))


def _marks(words: list[str], phrases: Sequence[Phrase]) -> Iterator[tuple[Span, Ranks]]:
    """(characters, ranks) of each run of words that are of the same phrases."""
    whole = np.array([[0, len(words)]])
    ranks: list[Ranks] = [()] * len(words)
    for rank, phrase in enumerate(phrases, start=1):
        for occurrences in find_occurrences([phrase], words, whole):
            length = occurrences.length
            for word in {s + i for s in occurrences.starts for i in range(length)}:
                ranks[word] += (rank,)
    stop = -1
    for of_run, run in itertools.groupby(range(len(words)), ranks.__getitem__):
        start = stop + 1
        stop = start + len(" ".join(words[i] for i in run))
        if of_run:
            yield (start, stop), of_run
