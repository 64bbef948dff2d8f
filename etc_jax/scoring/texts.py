"""Texts that a model writes, by the metrics that a data set names.

    score=texts.scorer("rouge"), metric=texts.METRICS["rouge"].headline

A record has an id and references, one text or more, of which the best counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.base.rules import choice, listed
from etc_jax.scoring import answers, bleu, labels, rouge
from etc_jax.scoring.references import check_references, written
from etc_jax.scoring.result import Scores

# (records with `id` and `references`, texts by record id) -> metrics. A record without
# a text is an empty text.
ScoreFn = Callable[[Sequence[Mapping[str, Any]], Mapping[str, str]], Scores]


class Metric(NamedTuple):
    """A way to score texts.

    Attributes:
      score: see `ScoreFn`.
      headline: the one of its metrics that models are ranked by.
      of_all: whether its metrics are of all records together, and no means over them;
        see `unread_gold`.
    """

    score: ScoreFn
    headline: str
    of_all: bool = False


@functools.cache
def scorer(*names: str) -> ScoreFn:
    """The score function of a data set: the metrics of each of `METRICS` named.

    Raises:
      ValueError: if no name is given, or there is none such. The function raises it
        if there is no record, or a value is not as it should be; names it.
    """
    listed(choice(METRICS)).check(metrics=names)

    def score(
        gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]
    ) -> Scores:
        each = [METRICS[name].score(gold, predictions) for name in names]
        ids = [record["id"] for record in gold]
        without_metrics = Scores.of({}, ids, {"text": predictions})
        return functools.reduce(Scores.joined, each, without_metrics)

    return score


def unread_gold(name: str) -> dict[str, Any]:
    """The gold of a record that could not be read: no words, and of no class.

    Means over records need none: one that was not read adds 0 to them.
    """
    return {"id": name, "references": [""]}


def _best_of(name: str, likeness: Callable[[str, str], float]) -> ScoreFn:
    """The mean over records of the likeness to the best reference."""

    def score(
        gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]
    ) -> Scores:
        records = list(check_references(gold, "gold"))
        texts = written(records, predictions, "predictions")
        best = [
            max(float(likeness(text, reference)) for reference in references)
            for text, (_, references) in zip(texts, records, strict=True)
        ]
        ids = [identity for identity, _ in records]
        return Scores.of({name: sum(best) / len(best)}, ids, {"text": predictions})

    return score


def _f1(text: str, reference: str) -> float:
    return answers.token_overlap(text, reference).f1


def _score_classes(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]
) -> Scores:
    """`accuracy`, `macro_f1` and `micro_f1` of texts that name a class.

    They are compared as normalised answers. A text that is the reference of no record
    is of no class, so that the number of classes does not depend on the predictions.

    Raises:
      ValueError: also if a record has several references.
    """
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    classes: dict[str, set[str]] = {}
    for identity, references in records:
        names = {answers.normalize(reference) for reference in references}
        if len(names) > 1:
            raise ValueError(
                f"gold, record {identity!r}: one class expected as its reference, got "
                f"{', '.join(map(repr, references))}"
            )
        classes[identity] = names - {""}
    gold_names = set().union(*classes.values())
    predicted = {
        identity: {name}
        for (identity, _), text in zip(records, texts, strict=True)
        if (name := answers.normalize(text)) in gold_names
    }
    return labels.score(classes, predicted)


METRICS = {
    "rouge": Metric(rouge.score, "geometric_mean"),
    "f1": Metric(_best_of("f1", _f1), "f1"),
    "exact_match": Metric(_best_of("exact_match", answers.exact_match), "exact_match"),
    "bleu": Metric(bleu.score, "bleu", of_all=True),
    "classification": Metric(_score_classes, "accuracy", of_all=True),
}
"""By the name that a data set gives. `f1` and `exact_match` are those of SQuAD; `rouge`
is without stemmer, as in SCROLLS."""
