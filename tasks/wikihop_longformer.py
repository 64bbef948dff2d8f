"""WikiHop as Longformer reads it: one sequence, or several for long records.

    problems = Problems()
    for record in read(["dev.json"], problems):
        windows = features(record, tokenizer)
        [[prediction]] = TASK.predictions(decode_each(logits, windows))

The tokenizer is one that has grown by `TOKENS`; see `etc_jax.convert grow`. Files and
score are those of `tasks.wikihop`.
"""

from etc_jax import registry
from etc_jax.datasets.task import Task
from etc_jax.formats.sequence import model_inputs
from etc_jax.scoring import wikihop as scoring
from tasks.wikihop.decoding import official_gold
from tasks.wikihop.records import Record, parse, read
from tasks.wikihop.sequence_decoding import decode_each, gold_outputs, pool
from tasks.wikihop.sequence_explained import explain, pool_explained
from tasks.wikihop.sequence_features import (
    SIZES,
    TOKENS,
    WikihopSequence,
    features,
)

__all__ = [
    "SIZES",
    "TASK",
    "TOKENS",
    "Record",
    "WikihopSequence",
    "decode_each",
    "features",
    "gold_outputs",
    "model_inputs",
    "parse",
    "pool",
    "read",
]

TASK = Task(
    "wikihop_longformer",
    sizes=SIZES,
    read=read,
    parse=parse,
    features=features,
    inputs=model_inputs,
    measure="accuracy",
    decode=decode_each,
    no_answer="",
    official=dict,
    gold=official_gold,
    score=scoring.score,
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
)

registry.register("data_set", "wikihop_longformer")(TASK)
