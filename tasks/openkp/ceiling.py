"""What the best possible model would score on OpenKP; see `tasks.ceiling`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.structured import Sizes
from etc_jax.ops.ngrams import MAX_WORDS
from etc_jax.scoring import openkp as scoring
from tasks.ceiling_report import Ceiling, Loss
from tasks.openkp import decoding
from tasks.openkp.features import (
    OpenkpWindow,
    Options,
    features,
    find_occurrences,
)
from tasks.openkp.records import MAX_KEYPHRASES, read


def openkp_ceiling(
    paths: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    sizes: Sizes,
    options: Options = Options(),  # noqa: B008  (frozen)
) -> Ceiling:
    """The ceiling of OpenKP files.

    Recall is what labels can lose: `R@3` and `R@5` are 1 if and only if none has.
    Precision is divided by k whatever the number of keyphrases.

    Raises:
      ValueError: if there is no page, or one has no gold keyphrases.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions: dict[str, list[decoding.Phrase]] = {}
    for record in read(paths, problems):
        windows: list[OpenkpWindow] = []
        predictions[record.id] = []
        try:
            windows = features(record, tokenizer, sizes, options=options)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
        predictions |= decoding.decode(decoding.gold_outputs(windows), windows)
        gold.append(decoding.official_gold(record))
        losses += [
            Loss(record.id, reason)
            for window in windows
            for reason in lost(window, predictions[record.id])
        ]
    scores = scoring.score(gold, decoding.official(predictions))
    return Ceiling(scores, tuple(losses), problems)


def lost(window: OpenkpWindow, given: Sequence[Sequence[str]]) -> Iterator[str]:
    """Why keyphrases of a page are not in its prediction, one reason each."""
    predicted = scoring.normalised(given)
    for phrase in scoring.normalised(window.record.keyphrases or ()):
        if phrase not in predicted:
            yield f"{phrase!r} {_reason(phrase, window)}"


def _reason(phrase: str, window: OpenkpWindow) -> str:
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
