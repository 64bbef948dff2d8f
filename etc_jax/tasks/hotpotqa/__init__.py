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

from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.scoring import hotpotqa as scoring
from etc_jax.tasks.hotpotqa import (
    decoding,
    explained,
    inputs,
    records,
    sequence_decoding,
    sequence_inputs,
)

DATA_SET = register(
    DataSet(
        name="hotpotqa",
        read=records.read,
        parse=records.parse,
        metric="joint_f1",
        no_answer={"answer": "", "support": []},
        official=decoding.official_content,
        gold=decoding.official_gold,
        score=scoring.score,
        converters={
            **in_formats(
                {"structured": inputs},
                learner="hotpotqa",
                settings=decoding.THRESHOLDS,
                setting=decoding.THRESHOLD,
                decode=decoding.decode_by(decoding.find_each),
                explain=explained.explain_by(decoding.find_each),
                gold_outputs=decoding.gold_outputs,
                why_lost=decoding.why_lost,
            ),
            **in_formats(
                {"sequence": sequence_inputs},
                learner="hotpotqa",
                settings=decoding.THRESHOLDS,
                setting=sequence_decoding.THRESHOLD,
                decode=decoding.decode_by(sequence_decoding.find_each),
                explain=explained.explain_by(sequence_decoding.find_each),
                gold_outputs=sequence_decoding.gold_outputs,
                why_lost=sequence_decoding.why_lost,
            ),
        },
    )
)
