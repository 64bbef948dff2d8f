"""TriviaQA (Joshi et al. 2017).

A record is a question and documents found for it. Of the answer all names are known,
but no place: every place where the documents have one of them may tell it.

    task = DATA_SET.in_format("sequence")
    for record in task.read(["triviaqa-rc/qa/wikipedia-dev.json"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(outputs, windows), "predictions.json")
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.span_inputs import sequence_length, structured_length
from etc_jax.datasets.spans import gold_outputs_of
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.tasks.triviaqa import structured
from etc_jax.tasks.triviaqa.decoding import answers, official_gold, score, why_lost
from etc_jax.tasks.triviaqa.explained import explain
from etc_jax.tasks.triviaqa.inputs import SIZES, TriviaqaWindow, features
from etc_jax.tasks.triviaqa.records import Record, parse, read, release_values

__all__ = [
    "SIZES",
    "DATA_SET",
    "Record",
    "TriviaqaWindow",
    "features",
    "official_gold",
    "parse",
    "read",
    "score",
]

SEQUENCE = FeatureConverter(
    learner="spans",
    sizes=SIZES,
    features=features,
    decode=of_one_setting(answers),
    explain=explain,
    gold_outputs=gold_outputs_of(official_gold),
    why_lost=why_lost,
    record_length=sequence_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    sizes=structured.SIZES,
    features=structured.features,
    record_length=structured_length,
)

DATA_SET = registry.register("data_set", "triviaqa")(
    DataSet(
        name="triviaqa",
        read=read,
        parse=parse,
        release=release_values,
        metric="f1",
        no_answer="",
        official=dict,
        gold=official_gold,
        score=score,
        converters={"sequence": SEQUENCE, "structured": STRUCTURED},
    )
)
