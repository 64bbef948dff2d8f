"""WikiHop (QAngaroo, Welbl et al. 2018).

A record is a query (relation and entity), documents, and candidates of which one is the
answer; finding it takes steps from document to document.

    problems = Problems()
    for record in read(["dev.json"], problems):
        windows += features(record, tokenizer)
    predictions = decode(logits, windows)
    write(predictions, "predictions.json")
"""

from etc_jax import registry
from etc_jax.datasets.task import DataSet, Form
from etc_jax.scoring import wikihop as scoring
from tasks.wikihop import sequence
from tasks.wikihop.decoding import (
    decode,
    decode_each,
    gold_outputs,
    official_gold,
    write,
)
from tasks.wikihop.explained import explain
from tasks.wikihop.inputs import (
    SIZES,
    WikihopOptions,
    WikihopWindow,
    features,
    whole_length,
)
from tasks.wikihop.records import Record, normal, parse, read

__all__ = [
    "SIZES",
    "DATA_SET",
    "WikihopOptions",
    "Record",
    "WikihopWindow",
    "decode",
    "features",
    "gold_outputs",
    "normal",
    "parse",
    "read",
    "write",
]

STRUCTURED = Form(
    learner="wikihop",
    sizes=SIZES,
    features=features,
    decode=decode_each,
    explain=explain,
    gold_outputs=gold_outputs,
    whole_length=whole_length,
)

DATA_SET = registry.register("data_set", "wikihop")(
    DataSet(
        name="wikihop",
        read=read,
        parse=parse,
        measure="accuracy",
        no_answer="",
        official=dict,
        gold=official_gold,
        score=scoring.score,
        forms={"structured": STRUCTURED, "sequence": sequence.FORM},
    )
)
