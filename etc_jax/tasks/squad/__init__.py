"""SQuAD 1.1 (Rajpurkar et al. 2016) as text: a model writes the answer.

    etc-jax prepare --task=squad --tokenizer=spiece.model \\
        --out=prepared/squad train-v1.1.json

Inputs are T5's, `question: ... context: ...` (Raffel et al. 2020, appendix D), and the
first answer is learnt. Any answer of a question is right in the score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax import registry
from etc_jax.datasets.explained import ExplainedDocument, Wording
from etc_jax.datasets.pairs import Pair
from etc_jax.datasets.task import DataSet
from etc_jax.datasets.text_form import make_text_form
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring import squad as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.squad.records import Record, parse, read, release_values

__all__ = ["DATA_SET", "SIZES", "Record", "pair_of", "parse", "read"]

# T5 reads 512 tokens; answers have some words.
SIZES = TextToTextSizes(input_length=512, target_length=64)


def pair_of(record: Record) -> Pair:
    """What is read of a record, and what is to be written."""
    target = record.answers and record.answers[0].text
    question = f"question: {record.question}"
    return Pair(record.id, f"context: {record.context}", target, question)


def gold(record: Record) -> dict[str, Any] | None:
    """What `score` needs of a record; None without an answer."""
    if record.answers is None:
        return None
    return {"id": record.id, "answers": [answer.text for answer in record.answers]}


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1`, each the best over a question's answers."""
    questions = [(x["id"], x["answers"]) for x in gold]
    return scoring.score_answers(questions, predictions)


def _shown(record: Record) -> tuple[str, ExplainedDocument]:
    return record.question, ExplainedDocument.of_text(record.title, record.context)


_SPANS = "its answers are written here: no paper marks them in a long input"
DATA_SET = registry.register("data_set", "squad")(
    DataSet(
        name="squad",
        read=read,
        parse=parse,
        release=release_values,
        measure="f1",
        no_answer="",
        official=dict,
        gold=gold,
        score=score,
        forms={
            "text_to_text": make_text_form(
                "squad",
                sizes=SIZES,
                pair_of=pair_of,
                shown=_shown,
                wording=Wording(places="", legend="", side_by_side=True),
            )
        },
        absent={"structured": _SPANS, "sequence": _SPANS},
    )
)
"""What a data set is to the command lines."""
