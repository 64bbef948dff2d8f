"""HotpotQA: answers, supporting facts, and both at once (Yang et al. 2018).

Metrics are those of `hotpot_evaluate_v1.py`: sums over the gold records divided by
their number, a record without a prediction adding 0. The joint precision of a record is
the product of those of its answer and of its facts, the joint recall too, and the
joint F1 comes from these two; the joint exact match is a product too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.scoring import files
from etc_jax.scoring.answers import (
    Overlap,
    exact_match,
    harmonic_mean,
    overlap,
    token_overlap,
)
from etc_jax.scoring.result import Scores

# Answers that share no word with another answer.
CLOSED_ANSWERS = ("yes", "no", "noanswer")


class _Part(NamedTuple):
    """One record's metrics for its answer, its facts, or both."""

    em: float
    f1: float
    prec: float
    recall: float


_WRONG = _Part(0.0, 0.0, 0.0, 0.0)


def score(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, Mapping[str, Any]]
) -> Scores:
    """Official metrics, by their official names.

    Args:
      gold: records with `_id`, `answer` and `supporting_facts`, a list of
        `[title, sentence index]`, of which only the set counts.
      predictions: `{"answer": {id: text}, "sp": {id: [[title, sentence index]]}}`.

    Returns:
      `em f1 prec recall` of answers, and with `sp_` and `joint_` before them.

    Raises:
      ValueError: if there is no gold record, or a value is not of these types; names
        the record.
    """
    check_gold(gold, "gold")
    check_predictions(predictions, "predictions")
    if not gold:
        raise ValueError("gold: at least one record expected, got an empty list")
    totals = dict.fromkeys(
        [f"{start}{name}" for start in ("", "sp_", "joint_") for name in _Part._fields],
        0.0,
    )
    for record in gold:
        for start, part in _parts(record, predictions).items():
            for name, value in part._asdict().items():
                totals[start + name] += value
    metrics = {name: total / len(gold) for name, total in totals.items()}
    parts = {"answer": predictions["answer"], "supporting facts": predictions["sp"]}
    return Scores.of(metrics, [record["_id"] for record in gold], parts)


def supporting_facts_overlap(
    prediction: Sequence[Sequence], gold: Sequence[Sequence]
) -> tuple[float, Overlap]:
    """(exact match, overlap) of two sets of `[title, sentence index]`."""
    predicted, wanted = {tuple(f) for f in prediction}, {tuple(f) for f in gold}
    shared = overlap(len(predicted & wanted), len(predicted), len(wanted))
    return float(predicted == wanted), shared


def _parts(record: Mapping[str, Any], predictions) -> dict[str, _Part]:
    identity = record["_id"]
    answer = facts = None
    if identity in predictions["answer"]:
        text, wanted = predictions["answer"][identity], record["answer"]
        precision, recall, f1 = token_overlap(text, wanted, closed=CLOSED_ANSWERS)
        answer = _Part(float(exact_match(text, wanted)), f1, precision, recall)
    if identity in predictions["sp"]:
        em, (precision, recall, f1) = supporting_facts_overlap(
            predictions["sp"][identity], record["supporting_facts"]
        )
        facts = _Part(em, f1, precision, recall)
    return {
        "": answer or _WRONG,
        "sp_": facts or _WRONG,
        "joint_": _joint(answer, facts) if answer and facts else _WRONG,
    }


def _joint(answer: _Part, facts: _Part) -> _Part:
    precision, recall = answer.prec * facts.prec, answer.recall * facts.recall
    f1 = harmonic_mean(precision, recall)
    return _Part(answer.em * facts.em, f1, precision, recall)


def check_gold(records: Any, where: str) -> list[dict[str, Any]]:
    """The records, if they can be scored against.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    for record, at in files.identified(records, "_id", where):
        files.field(record, "answer", str, at)
        _check_facts(files.field(record, "supporting_facts", list, at), at)
    return records


def check_predictions(predictions: Any, where: str) -> dict[str, dict[str, Any]]:
    """The predictions, if they are such.

    Raises:
      ValueError: naming `where`, the id and the part, if not.
    """
    files.typed(predictions, dict, where)
    for identity, text in files.field(predictions, "answer", dict, where).items():
        files.typed(text, str, f"{where}, answer of {identity!r}")
    for identity, facts in files.field(predictions, "sp", dict, where).items():
        at = f"{where}, sp of {identity!r}"
        _check_facts(files.typed(facts, list, at), at)
    return predictions


def _check_facts(facts: list, where: str) -> None:
    for fact in facts:
        pair = isinstance(fact, list | tuple) and len(fact) == 2
        if not pair or not isinstance(fact[0], str) or type(fact[1]) is not int:
            raise ValueError(
                f"{where}: a supporting fact is [title, sentence index], got {fact!r}"
            )
