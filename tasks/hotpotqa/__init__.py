"""HotpotQA, distractor setting (Yang et al. 2018).

A record is a question over some ten paragraphs of Wikipedia; the answer is a span, yes
or no, and the sentences that support it are asked for.

    problems = Problems()
    for record in read(["hotpot_dev_distractor_v1.json"], problems):
        windows += features(record, tokenizer)
    predictions = decode(outputs, windows)
    write(predictions, "predictions.json")
"""

from etc_jax import registry
from etc_jax.datasets.task import Task
from etc_jax.formats.structured import model_inputs
from etc_jax.scoring import hotpotqa as scoring
from tasks.hotpotqa.decoding import (
    THRESHOLD,
    THRESHOLDS,
    Outputs,
    Predictions,
    best_threshold,
    decode,
    decode_each,
    gold_outputs,
    joint_f1,
    known_gold,
    official_content,
    official_gold,
    write,
)
from tasks.hotpotqa.explained import explain
from tasks.hotpotqa.features import SIZES, HotpotWindow, bio_labels, features
from tasks.hotpotqa.records import Paragraph, Record, parse, read

__all__ = [
    "SIZES",
    "TASK",
    "HotpotWindow",
    "Outputs",
    "Paragraph",
    "Predictions",
    "Record",
    "best_threshold",
    "bio_labels",
    "decode",
    "features",
    "gold_outputs",
    "joint_f1",
    "official_gold",
    "parse",
    "read",
    "write",
]


TASK = Task(
    "hotpotqa",
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

registry.register("data_set", "hotpotqa")(TASK)
