"""TriviaQA (Joshi et al. 2017).

A record is a question and documents found for it. Of the answer all names are known,
but no place: every place where the documents have one of them may tell it.

    problems = Problems()
    for record in read(["triviaqa-rc/qa/wikipedia-dev.json"], problems):
        windows += features(record, tokenizer)
    predictions = decode(outputs, windows)
    write(predictions, "predictions.json")
"""

import dataclasses

from etc_jax import registry
from etc_jax.datasets.task import DataSet, Form
from tasks.triviaqa import structured
from tasks.triviaqa.decoding import (
    Outputs,
    decode,
    decode_each,
    gold_outputs,
    official_gold,
    score,
    write,
)
from tasks.triviaqa.explained import explain
from tasks.triviaqa.inputs import SIZES, TriviaqaWindow, features, whole_length
from tasks.triviaqa.records import Record, parse, read, release_values
from tasks.triviaqa.upper_bound import why_lost

__all__ = [
    "SIZES",
    "DATA_SET",
    "Outputs",
    "Record",
    "TriviaqaWindow",
    "decode",
    "features",
    "gold_outputs",
    "official_gold",
    "parse",
    "read",
    "score",
    "write",
]

SEQUENCE = Form(
    learner="triviaqa",
    sizes=SIZES,
    features=features,
    decode=decode_each,
    explain=explain,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    whole_length=whole_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    sizes=structured.SIZES,
    features=structured.features,
    whole_length=structured.whole_length,
)

DATA_SET = registry.register("data_set", "triviaqa")(
    DataSet(
        name="triviaqa",
        read=read,
        parse=parse,
        release=release_values,
        measure="f1",
        no_answer="",
        official=dict,
        gold=official_gold,
        score=score,
        forms={"sequence": SEQUENCE, "structured": STRUCTURED},
    )
)
