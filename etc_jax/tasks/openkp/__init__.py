"""OpenKP (Xiong et al. 2019): keyphrases of web pages.

A page is words in the elements of a DOM, with what each element looks like; its
keyphrases are up to three runs of its words.

    task = DATA_SET.in_format("structured")
    for record in task.read(["OpenKPDev.jsonl"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(logits, windows), "predictions.jsonl")
"""

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.scoring import openkp as scoring
from etc_jax.tasks.openkp import decoding, explained, inputs, records, sequence_inputs

DATA_SET = register(
    DataSet(
        name="openkp",
        read=records.read,
        parse=records.parse,
        metric="F1@3",
        no_answer=[],
        official=decoding.official,
        lines=True,
        gold=decoding.official_gold,
        score=scoring.score,
        converters=in_formats(
            {"structured": inputs, "sequence": sequence_inputs},
            learner="openkp",
            decode=of_one_setting(decoding.keyphrases),
            explain=explained.explain,
            gold_outputs=decoding.gold_outputs,
            why_lost=decoding.why_lost,
        ),
    )
)
