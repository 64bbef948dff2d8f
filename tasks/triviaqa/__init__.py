"""TriviaQA (Joshi et al. 2017).

A record is a question and documents found for it. Of the answer all names are known,
but no place: every place where the documents have one of them may tell it.

    problems = Problems()
    for record in read(["triviaqa-rc/qa/wikipedia-dev.json"], problems):
        windows += features(record, tokenizer)
    predictions = decode(outputs, windows)
    write(predictions, "predictions.json")
"""

from etc_jax import registry
from etc_jax.datasets.task import Task
from etc_jax.formats.sequence import model_inputs
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
from tasks.triviaqa.features import SIZES, TriviaqaWindow, features
from tasks.triviaqa.records import Record, parse, read, release_values

__all__ = [
    "SIZES",
    "TASK",
    "Outputs",
    "Record",
    "TriviaqaWindow",
    "decode",
    "features",
    "gold_outputs",
    "model_inputs",
    "official_gold",
    "parse",
    "read",
    "score",
    "write",
]

TASK = Task(
    "triviaqa",
    sizes=SIZES,
    read=read,
    parse=parse,
    release=release_values,
    features=features,
    inputs=model_inputs,
    measure="f1",
    decode=decode_each,
    no_answer="",
    official=dict,
    gold=official_gold,
    score=score,
    explain=explain,
)

registry.register("data_set", "triviaqa")(TASK)
