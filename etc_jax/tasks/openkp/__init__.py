"""OpenKP (Xiong et al. 2019): keyphrases of web pages.

A page is words in the elements of a DOM, with what each element looks like; its
keyphrases are up to three runs of its words.

    task = DATA_SET.in_format("structured")
    for record in task.read(["OpenKPDev.jsonl"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(logits, windows), "predictions.jsonl")
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.scoring import openkp as scoring
from etc_jax.tasks.openkp import sequence_inputs
from etc_jax.tasks.openkp.decoding import (
    gold_outputs,
    keyphrases,
    official,
    official_gold,
    why_lost,
)
from etc_jax.tasks.openkp.explained import explain
from etc_jax.tasks.openkp.inputs import (
    SIZES,
    OpenkpOptions,
    OpenkpWindow,
    features,
    record_length,
)
from etc_jax.tasks.openkp.records import Record, parse, read

__all__ = [
    "SIZES",
    "DATA_SET",
    "OpenkpWindow",
    "OpenkpOptions",
    "Record",
    "features",
    "gold_outputs",
    "official",
    "official_gold",
    "parse",
    "read",
]

STRUCTURED = FeatureConverter(
    learner="openkp",
    sizes=SIZES,
    features=features,
    options=OpenkpOptions(),
    decode=of_one_setting(keyphrases),
    explain=explain,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    record_length=record_length,
)

SEQUENCE = dataclasses.replace(
    STRUCTURED,
    sizes=sequence_inputs.SIZES,
    features=sequence_inputs.features,
    options=InputOptions(),
    record_length=sequence_inputs.record_length,
)

DATA_SET = registry.register("data_set", "openkp")(
    DataSet(
        name="openkp",
        read=read,
        parse=parse,
        metric="F1@3",
        no_answer=[],
        official=official,
        lines=True,
        gold=official_gold,
        score=scoring.score,
        converters={"structured": STRUCTURED, "sequence": SEQUENCE},
    )
)
