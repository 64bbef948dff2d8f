"""HotpotQA, distractor setting, as Longformer reads it: one sequence.

    problems = Problems()
    for record in read(["hotpot_dev_distractor_v1.json"], problems):
        windows = features(record, tokenizer)
        [prediction] = TASK.predictions(decode_each(outputs, windows, (THRESHOLD,)))

The tokenizer is one that has grown by `TOKENS`; see `etc_jax.convert grow`. Files and
score are those of `tasks.hotpotqa`.
"""

from etc_jax.scoring import hotpotqa as scoring
from tasks.hotpotqa_decoding import THRESHOLDS, known_gold, official_content
from tasks.hotpotqa_longformer_decoding import (
    THRESHOLD,
    Outputs,
    decode_each,
    gold_outputs,
)
from tasks.hotpotqa_longformer_explained import explain
from tasks.hotpotqa_longformer_features import (
    SIZES,
    TOKENS,
    HotpotSequence,
    features,
)
from tasks.hotpotqa_records import Record, parse, read
from tasks.one_sequence import model_inputs
from tasks.task import Task

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
