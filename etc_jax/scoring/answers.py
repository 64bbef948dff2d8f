"""How alike two short answers are: the metrics of SQuAD, which many sets share."""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class Overlap(NamedTuple):
    """Agreement of a prediction with a gold answer, each number in 0..1."""

    precision: float
    recall: float
    f1: float


NO_OVERLAP = Overlap(0.0, 0.0, 0.0)


def overlap(common: int, predicted: int, gold: int) -> Overlap:
    """Precision, recall and F1 of three counts; 0 where there is nothing to divide."""
    if not common:
        return NO_OVERLAP
    precision, recall = common / predicted, common / gold
    return Overlap(precision, recall, harmonic_mean(precision, recall))


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 if both are 0."""
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def normalize(text: str, punctuation: Mapping[int, str | None] = _PUNCTUATION) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces.

    In this order, so that "a.m." becomes "am" and "The-End" becomes "theend".

    Args:
      text: an answer.
      punctuation: what takes the place of each mark, as `str.translate` reads it.
    """
    words = _ARTICLES.sub(" ", text.lower().translate(punctuation))
    return " ".join(words.split())


def exact_match(prediction: str, gold: str) -> bool:
    """Whether both are equal once normalised."""
    return normalize(prediction) == normalize(gold)


def token_overlap(
    prediction: str,
    gold: str,
    *,
    closed: Collection[str] = (),
    normalize: Callable[[str], str] = normalize,
) -> Overlap:
    """Overlap of the words of two answers, as multisets of normalised words.

    Two answers without a word in common score 0, also if both are empty: "the" and
    "the" are an exact match with an F1 of 0, as in the official scripts.

    Args:
      prediction: the answer of a system.
      gold: the right answer.
      closed: normalised answers that are right as a whole or wrong: if either side is
        one of them and the other differs, nothing is in common.
      normalize: an answer -> what is compared.
    """
    predicted, wanted = normalize(prediction), normalize(gold)
    if predicted != wanted and (predicted in closed or wanted in closed):
        return NO_OVERLAP
    predicted_words, wanted_words = predicted.split(), wanted.split()
    # A word counts as often as both have it.
    common = collections.Counter(predicted_words) & collections.Counter(wanted_words)
    return overlap(common.total(), len(predicted_words), len(wanted_words))
