"""WikiHop (QAngaroo, Welbl et al. 2018).

A record is a query (relation and entity), documents, and candidates of which one is the
answer; finding it takes steps from document to document.

    task = DATA_SET.in_format("structured")
    for record in task.read(["dev.json"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(logits, windows), "predictions.json")

In one sequence a long record has several windows, and the tokenizer is one that has
grown by `sequence_inputs.TOKENS`; see `etc-jax convert grow`.
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.choice_inputs import (
    SIZES,
    CandidateOptions,
    CandidatesWindow,
    features,
    record_length,
)
from etc_jax.datasets.choices import explain, gold_outputs_of, pool, rated
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.scoring import wikihop as scoring
from etc_jax.tasks.wikihop import sequence_inputs
from etc_jax.tasks.wikihop.explained import pool_explained
from etc_jax.tasks.wikihop.records import Record, normal, official_gold, parse, read

__all__ = [
    "SIZES",
    "DATA_SET",
    "CandidateOptions",
    "CandidatesWindow",
    "Record",
    "features",
    "normal",
    "parse",
    "read",
]

STRUCTURED = FeatureConverter(
    learner="wikihop",
    sizes=SIZES,
    features=features,
    decode=of_one_setting(rated),
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs_of(official_gold),
    record_length=record_length,
)

SEQUENCE = dataclasses.replace(
    STRUCTURED,
    tokens=sequence_inputs.TOKENS,
    sizes=sequence_inputs.SIZES,
    features=sequence_inputs.features,
    record_length=sequence_inputs.record_length,
)

DATA_SET = registry.register("data_set", "wikihop")(
    DataSet(
        name="wikihop",
        read=read,
        parse=parse,
        metric="accuracy",
        no_answer="",
        official=dict,
        gold=official_gold,
        score=scoring.score,
        converters={"structured": STRUCTURED, "sequence": SEQUENCE},
    )
)
