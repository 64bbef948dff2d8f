"""ROUGE as the rouge-score package has it (Lin 2004), with several references.

Papers differ in how they work it out, and their figures are not to be compared:

    SCROLLS, SLED  words as they are, rougeL; see `scrolls`
    BART-LS, BART  files2rouge: words are stemmed, and its ROUGE-L is rougeLsum of
                   sentences; see `score_as_files2rouge`
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import extras
from etc_jax.base.rules import number, whole
from etc_jax.scoring.answers import Overlap
from etc_jax.scoring.references import check_references, check_several, written
from etc_jax.scoring.result import Scores

TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
CONFIDENCE = 0.95

# files2rouge cuts texts of tokens after " ."; texts that are not tokenised have no
# space before it.
_FULL_STOP = re.compile(r"(?<=\.)\s+")


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
    metrics = _means(by_record)
    of_three = math.prod(metrics[name] for name in ("rouge1", "rouge2", "rougeL"))
    metrics["geometric_mean"] = of_three ** (1 / 3)
    scores = Scores.of(
        metrics,
        [x["id"] for x in gold],
        {"text": predictions},
        {"rouge": _signature(stemmer=stemmer, sentences="lines")},
    )
    return dataclasses.replace(
        scores,
        intervals_fn=functools.partial(_bounds, by_record),
        conventions={
            "files2rouge": functools.partial(score_as_files2rouge, gold, predictions)
        },
    )


def score_as_files2rouge(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]
) -> Scores:
    """ROUGE-1, ROUGE-2 and rougeLsum as files2rouge works them out.

    Words are stemmed, and sentences end at a full stop. Its Perl script has another
    tokeniser, so that its figures differ by some hundredths of a per cent to tenths.

    Args:
      gold: see `score`.
      predictions: see `score`.

    Raises:
      ValueError: see `score`.
      extras.MissingExtraError: if rouge-score is not installed.
    """
    by_record = _of_records(gold, predictions, True, of_text=_full_stops_to_lines)
    means = _means(by_record)
    return Scores.of(
        {name: means[name] for name in ("rouge1", "rouge2", "rougeLsum")},
        [x["id"] for x in gold],
        {"text": predictions},
        {"rouge": _signature(stemmer=True, sentences="full_stops")},
    )


def _full_stops_to_lines(text: str) -> str:
    return _FULL_STOP.sub("\n", text)


def _means(by_record: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(x[name] for x in by_record) / len(by_record) for name in TYPES}


def _signature(*, stemmer: bool, sentences: str) -> str:
    """How a figure was worked out, in the form of sacreBLEU's signatures."""
    return (
        f"nrefs:best|score:f1|stemmer:{'yes' if stemmer else 'no'}|sentences:"
        f"{sentences}|package:rouge_score|version:{metadata.version('rouge_score')}"
    )


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
    confidence: float = CONFIDENCE,
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
    return _intervals(by_record, confidence, samples, seed)


def _bounds(
    by_record: Sequence[Mapping[str, float]], wrong: int
) -> dict[str, tuple[float, float]]:
    """See `Scores.intervals_fn`."""
    every = [*by_record, *[dict.fromkeys(TYPES, 0.0)] * wrong]
    by_type = _intervals(every, CONFIDENCE, samples=1000, seed=0)
    return {name: (x.low, x.high) for name, x in by_type.items()}


def _intervals(
    by_record: Sequence[Mapping[str, float]],
    confidence: float,
    samples: int,
    seed: int,
) -> dict[str, Interval]:
    """See `intervals`."""
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
    gold: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, str],
    stemmer: bool,
    of_text: Callable[[str], str] = str,
) -> list[dict[str, float]]:
    """`best_f1` of each record, of all texts as `of_text` makes them."""
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    return [
        best_f1(of_text(text), [*map(of_text, references)], stemmer=stemmer)
        for text, (_, references) in zip(texts, records, strict=True)
    ]
