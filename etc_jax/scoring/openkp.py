"""OpenKP: precision, recall and F1 of the first k keyphrases (Xiong et al. 2019).

Metrics are those of the data set's `evaluate.py`: phrases are compared in lower case
and without duplicates, precision is divided by k even where fewer phrases are given,
recall by the number of different references, and all three are means over documents.
The headline is `F1@3`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.scoring import files
from etc_jax.scoring.answers import harmonic_mean
from etc_jax.scoring.result import Scores

CUTOFFS = (1, 3, 5)


def normalised(phrases: Sequence[Sequence[str]]) -> list[str]:
    """The different phrases in the form they are compared in, in order.

    A phrase whose first word is empty is none.

    Args:
      phrases: each a list of words.
    """
    texts = (" ".join(phrase).lower().rstrip() for phrase in phrases if any(phrase[:1]))
    return list(dict.fromkeys(texts))


def score(
    gold: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]
) -> Scores:
    """Official metrics: `P@k`, `R@k` and `F1@k` for k = 1, 3, 5.

    Args:
      gold: records with `url` and `KeyPhrases`, a list of lists of words.
      predictions: as `gold`, best phrase first; one for each gold record.

    Raises:
      ValueError: if there is no gold record, one has no keyphrase (the official script
        divides by zero there), a value is not of these types, or the urls of both
        sides are not the same, each once; names the record.
    """
    check_gold(gold, "gold")
    check_predictions(predictions, "predictions")
    if not gold:
        raise ValueError("gold: at least one record expected, got an empty list")
    predicted = {
        record["url"]: normalised(record["KeyPhrases"]) for record in predictions
    }
    urls = [record["url"] for record in gold]
    # Before the metrics are made, so that none is made of other documents.
    Scores.of({}, urls, {"keyphrases": predicted}).require_same_ids()
    totals: dict[str, float] = {}
    for record in gold:
        wanted = normalised(record["KeyPhrases"])
        for name, value in _metrics(predicted[record["url"]], wanted):
            totals[name] = totals.get(name, 0.0) + value
    metrics = {name: total / len(gold) for name, total in totals.items()}
    return Scores.of(metrics, urls, {"keyphrases": predicted})


def _metrics(predicted: list[str], wanted: list[str]) -> Iterator[tuple[str, float]]:
    """(name, value) of each metric of one document."""
    for k in CUTOFFS:
        right = sum(phrase in wanted for phrase in predicted[:k])
        # By k, even where fewer phrases are given, as the official script.
        precision, recall = right / k, right / len(wanted)
        yield f"P@{k}", precision
        yield f"R@{k}", recall
        yield f"F1@{k}", harmonic_mean(precision, recall)


def check_gold(records: Any, where: str) -> list[dict[str, Any]]:
    """The records, if they can be scored against.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    for record, at in _checked(records, where):
        if not normalised(record["KeyPhrases"]):
            raise ValueError(
                f"{at}, field 'KeyPhrases': no phrase to find, so that recall has no "
                "value; leave the record out of both sides"
            )
    return records


def check_predictions(predictions: Any, where: str) -> list[dict[str, Any]]:
    """The predictions, if they are such and for different urls.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    seen = set()
    for record, at in _checked(predictions, where):
        if record["url"] in seen:
            raise ValueError(f"{at}: a second prediction for this url; expected one")
        seen.add(record["url"])
    return predictions


def _checked(records: Any, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each record with well-formed phrases, and words for where it is."""
    for record, at in files.identified(records, "url", where):
        for phrase in files.field(record, "KeyPhrases", list, at):
            for word in files.typed(phrase, list, f"{at}, a phrase"):
                files.typed(word, str, f"{at}, a word of {phrase!r}")
        yield record, at
