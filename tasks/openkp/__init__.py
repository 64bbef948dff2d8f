"""OpenKP (Xiong et al. 2019): keyphrases of web pages.

A page is words in the elements of a DOM, with what each element looks like; its
keyphrases are up to three runs of its words.

    problems = Problems()
    for record in read(["OpenKPDev.jsonl"], problems):
        windows += features(record, tokenizer)
    predictions = decode(logits, windows)
    write(predictions, "predictions.jsonl")
"""

from etc_jax import registry
from etc_jax.datasets.task import Task
from etc_jax.scoring import openkp as scoring
from tasks.openkp.decoding import (
    decode,
    decode_each,
    gold_outputs,
    official,
    official_gold,
    write,
)
from tasks.openkp.explained import explain
from tasks.openkp.features import (
    SIZES,
    OpenkpWindow,
    Options,
    features,
    model_inputs,
)
from tasks.openkp.records import Record, parse, read

__all__ = [
    "SIZES",
    "TASK",
    "OpenkpWindow",
    "Options",
    "Record",
    "decode",
    "decode_each",
    "features",
    "gold_outputs",
    "model_inputs",
    "official",
    "official_gold",
    "parse",
    "read",
    "write",
]

TASK = Task(
    "openkp",
    sizes=SIZES,
    read=read,
    parse=parse,
    features=features,
    inputs=model_inputs,
    measure="F1@3",
    decode=decode_each,
    no_answer=[],
    official=official,
    gold=official_gold,
    score=scoring.score,
    explain=explain,
    options=Options(),
    lines=True,
)

registry.register("data_set", "openkp")(TASK)
