"""ROUGE as the rouge-score package has it (Lin 2004), with several references."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import extras
from etc_jax.base.rules import number, whole
from etc_jax.scoring.answers import Overlap
from etc_jax.scoring.references import check_references, check_several, written
from etc_jax.scoring.result import Scores

TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def overlaps(text: str, reference: str, *, stemmer: bool = False) -> dict[str, Overlap]:
    """Precision, recall and F1 of two texts, by type.

    Everything but a-z and 0-9 parts words, also letters with accents.

    Args:
      text: what was written.
      reference: what it is compared with.
      stemmer: whether words of more than three letters are stemmed (Porter), as in
        ROUGE-1.5.5's option -m.

    Returns:
      Of each of `TYPES`. rougeLsum takes each line for a sentence: put "\\n" between
      sentences for the scores of papers; the other types ignore it.

    Raises:
      extras.MissingExtraError: if rouge-score is not installed.
    """
    by_type = _scorer(stemmer).score(reference, text)
    return {
        name: Overlap(x.precision, x.recall, x.fmeasure) for name, x in by_type.items()
    }


@functools.cache
def _scorer(stemmer: bool):
    module = extras.needed(
        "rouge_score.rouge_scorer", extra="metrics", to="work out ROUGE"
    )
    return module.RougeScorer(list(TYPES), use_stemmer=stemmer)


def best_f1(
    text: str, references: Sequence[str], *, stemmer: bool = False
) -> dict[str, float]:
    """F1 of each type, the best over the references, for each type by itself.

    Raises:
      ValueError: if there is no reference.
    """
    check_several(references, "references")
    by_reference = [
        overlaps(text, reference, stemmer=stemmer) for reference in references
    ]
    return {name: max(x[name].f1 for x in by_reference) for name in TYPES}


def score(
    gold: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, str],
    *,
    stemmer: bool = False,
) -> Scores:
    """F1 of each of `TYPES`, means over all records of the best reference's.

    `geometric_mean` is that of the means of ROUGE-1, ROUGE-2 and ROUGE-L (SCROLLS).

    Args:
      gold: records with `id` and `references`, one text or more.
      predictions: texts by record id; a record without one is an empty text.
      stemmer: see `overlaps`.

    Raises:
      ValueError: if there is no record, or a value is not as it should be; names it.
      extras.MissingExtraError: if rouge-score is not installed.
    """
    by_record = _of_records(gold, predictions, stemmer)
    metrics = {name: sum(x[name] for x in by_record) / len(by_record) for name in TYPES}
    of_three = math.prod(metrics[name] for name in ("rouge1", "rouge2", "rougeL"))
    metrics["geometric_mean"] = of_three ** (1 / 3)
    return Scores.of(metrics, [x["id"] for x in gold], {"text": predictions})


class Interval(NamedTuple):
    """A confidence interval of a mean, in 0..1; `mid` is the median of the samples."""

    low: float
    mid: float
    high: float


def intervals(
    gold: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, str],
    *,
    stemmer: bool = False,
    confidence: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Of each of `TYPES`, by the package's bootstrap over records.

    Args:
      gold: see `score`.
      predictions: see `score`.
      stemmer: see `overlaps`.
      confidence: share of the samples whose mean lies within, 0..1.
      samples: how often as many records are drawn as there are.
      seed: of the draws.

    Raises:
      ValueError: see `score`; also if `confidence` or `samples` is out of range.
      extras.MissingExtraError: if rouge-score is not installed.
    """
    number(0, 1).check(confidence=confidence)
    whole(1).check(samples=samples)
    by_record = _of_records(gold, predictions, stemmer)
    module = extras.needed("rouge_score.scoring", extra="metrics", to="work out ROUGE")
    aggregator = module.BootstrapAggregator(confidence, samples)
    for of_types in by_record:
        # It takes tuples, and gives such back.
        aggregator.add_scores({name: _F1(value) for name, value in of_types.items()})
    # It draws from numpy's global state, which is left as it was.
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        results = aggregator.aggregate()
    finally:
        np.random.set_state(state)
    return {
        name: Interval(*(float(bound.f1) for bound in bounds))
        for name, bounds in results.items()
    }


class _F1(NamedTuple):
    f1: float


def _of_records(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str], stemmer: bool
) -> list[dict[str, float]]:
    """`best_f1` of each record."""
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    return [
        best_f1(text, references, stemmer=stemmer)
        for text, (_, references) in zip(texts, records, strict=True)
    ]
