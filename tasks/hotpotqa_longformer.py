"""HotpotQA, distractor setting, as Longformer reads it: one sequence.

    problems = Problems()
    for record in read(["hotpot_dev_distractor_v1.json"], problems):
        windows = features(record, tokenizer)
        [prediction] = TASK.predictions(decode_each(outputs, windows, (THRESHOLD,)))

The tokenizer is one that has grown by `TOKENS`; see `etc_jax.convert grow`. Files and
score are those of `tasks.hotpotqa`.
"""

from etc_jax import registry
from etc_jax.datasets.task import Task
from etc_jax.formats.sequence import model_inputs
from etc_jax.scoring import hotpotqa as scoring
from tasks.hotpotqa.decoding import THRESHOLDS, known_gold, official_content
from tasks.hotpotqa.records import Record, parse, read
from tasks.hotpotqa.sequence_decoding import (
    THRESHOLD,
    Outputs,
    decode_each,
    gold_outputs,
)
from tasks.hotpotqa.sequence_explained import explain
from tasks.hotpotqa.sequence_features import (
    SIZES,
    TOKENS,
    HotpotSequence,
    features,
)

__all__ = [
    "SIZES",
    "TASK",
    "THRESHOLD",
    "TOKENS",
    "HotpotSequence",
    "Outputs",
    "Record",
    "decode_each",
    "features",
    "gold_outputs",
    "model_inputs",
    "parse",
    "read",
]

TASK = Task(
    "hotpotqa_longformer",
    sizes=SIZES,
    read=read,
    parse=parse,
    features=features,
    inputs=model_inputs,
    settings=THRESHOLDS,
    setting=THRESHOLD,
    measure="joint_f1",
    decode=decode_each,
    no_answer={"answer": "", "support": []},
    official=official_content,
    gold=known_gold,
    score=scoring.score,
    explain=explain,
)

registry.register("data_set", "hotpotqa_longformer")(TASK)
