"""HotpotQA, distractor setting (Yang et al. 2018).

A record is a question over some ten paragraphs of Wikipedia; the answer is a span, yes
or no, and the sentences that support it are asked for.

    task = DATA_SET.in_format("structured")
    for record in task.read(["hotpot_dev_distractor_v1.json"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(outputs, windows), "predictions.json")

In one sequence the tokenizer is one that has grown by `sequence_inputs.TOKENS`; see
`etc-jax convert grow`.
"""

from etc_jax.base import registry
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.scoring import hotpotqa as scoring
from etc_jax.tasks.hotpotqa import sequence_decoding, sequence_inputs
from etc_jax.tasks.hotpotqa.decoding import (
    THRESHOLD,
    THRESHOLDS,
    Outputs,
    decode,
    gold_outputs,
    official_content,
    official_gold,
    why_lost,
)
from etc_jax.tasks.hotpotqa.explained import explain, explain_sequence
from etc_jax.tasks.hotpotqa.inputs import (
    SIZES,
    HotpotWindow,
    bio_labels,
    features,
    record_length,
)
from etc_jax.tasks.hotpotqa.records import Paragraph, Record, parse, read

__all__ = [
    "SIZES",
    "DATA_SET",
    "HotpotWindow",
    "Outputs",
    "Paragraph",
    "Record",
    "bio_labels",
    "features",
    "gold_outputs",
    "official_gold",
    "parse",
    "read",
]


STRUCTURED = FeatureConverter(
    learner="hotpotqa",
    sizes=SIZES,
    features=features,
    settings=THRESHOLDS,
    setting=THRESHOLD,
    decode=decode,
    explain=explain,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    record_length=record_length,
)

SEQUENCE = FeatureConverter(
    learner="hotpotqa",
    tokens=sequence_inputs.TOKENS,
    sizes=sequence_inputs.SIZES,
    features=sequence_inputs.features,
    settings=THRESHOLDS,
    setting=sequence_decoding.THRESHOLD,
    decode=sequence_decoding.decode,
    explain=explain_sequence,
    gold_outputs=sequence_decoding.gold_outputs,
    why_lost=sequence_decoding.why_lost,
    record_length=sequence_inputs.record_length,
)

DATA_SET = registry.register("data_set", "hotpotqa")(
    DataSet(
        name="hotpotqa",
        read=read,
        parse=parse,
        metric="joint_f1",
        no_answer={"answer": "", "support": []},
        official=official_content,
        gold=official_gold,
        score=scoring.score,
        converters={"structured": STRUCTURED, "sequence": SEQUENCE},
    )
)
