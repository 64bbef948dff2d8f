"""ROUGE as the rouge-score package has it (Lin 2004), with several references."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.base import extras
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

    Args:
      gold: records with `id` and `references`, one text or more.
      predictions: texts by record id; a record without one is an empty text.
      stemmer: see `overlaps`.

    Raises:
      ValueError: if there is no record, or a value is not as it should be; names it.
      extras.MissingExtraError: if rouge-score is not installed.
    """
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    by_record = [
        best_f1(text, references, stemmer=stemmer)
        for text, (_, references) in zip(texts, records, strict=True)
    ]
    return Scores.of(
        {name: sum(x[name] for x in by_record) / len(by_record) for name in TYPES},
        [identity for identity, _ in records],
        {"text": predictions},
    )
