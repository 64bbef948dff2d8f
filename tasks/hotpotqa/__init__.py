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
from etc_jax.datasets.task import DataSet, Form
from etc_jax.scoring import hotpotqa as scoring
from tasks.hotpotqa import sequence
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
from tasks.hotpotqa.inputs import (
    SIZES,
    HotpotWindow,
    bio_labels,
    features,
    whole_length,
)
from tasks.hotpotqa.records import Paragraph, Record, parse, read
from tasks.hotpotqa.upper_bound import why_lost

__all__ = [
    "SIZES",
    "DATA_SET",
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


STRUCTURED = Form(
    learner="hotpotqa",
    sizes=SIZES,
    features=features,
    settings=THRESHOLDS,
    setting=THRESHOLD,
    decode=decode_each,
    explain=explain,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    whole_length=whole_length,
)

DATA_SET = registry.register("data_set", "hotpotqa")(
    DataSet(
        name="hotpotqa",
        read=read,
        parse=parse,
        measure="joint_f1",
        no_answer={"answer": "", "support": []},
        official=official_content,
        gold=known_gold,
        score=scoring.score,
        forms={"structured": STRUCTURED, "sequence": sequence.FORM},
    )
)
