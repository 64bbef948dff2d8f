"""WikiHop: the share of questions whose right candidate is chosen (Welbl et al. 2018).

There is no public official scorer; the rule is that of the official ETC code: both
sides lower-cased and stripped, then equal. It serves the masked files as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.scoring import files
from etc_jax.scoring.result import Scores


def is_right(prediction: str, answer: str) -> bool:
    """Whether a predicted candidate is the answer."""
    return prediction.strip().lower() == answer.strip().lower()


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """Accuracy; a record without a prediction is wrong.

    Args:
      gold: records with `id` and `answer`.
      predictions: the chosen candidate's text, by id.

    Raises:
      ValueError: if there is no gold record, or a value is not of these types; names
        the record.
    """
    check_gold(gold, "gold")
    check_predictions(predictions, "predictions")
    if not gold:
        raise ValueError("gold: at least one record expected, got an empty list")
    right = sum(
        is_right(predictions[record["id"]], record["answer"])
        for record in gold
        if record["id"] in predictions
    )
    return Scores.of(
        {"accuracy": right / len(gold)},
        [record["id"] for record in gold],
        {"candidate": predictions},
    )


def check_gold(records: Any, where: str) -> list[dict[str, Any]]:
    """The records, if they can be scored against.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    for record, at in files.identified(records, "id", where):
        files.field(record, "answer", str, at)
    return records


def check_predictions(predictions: Any, where: str) -> dict[str, str]:
    """The predictions, if they are such.

    Raises:
      ValueError: naming `where` and the id, if not.
    """
    return files.texts_by_id(predictions, where, "candidate")
