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

from etc_jax.datasets import choice_inputs
from etc_jax.datasets.choices import choice_fields
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.scoring import wikihop as scoring
from etc_jax.tasks.wikihop import explained, records, sequence_inputs

DATA_SET = register(
    DataSet(
        name="wikihop",
        read=records.read,
        parse=records.parse,
        metric="accuracy",
        no_answer="",
        official=dict,
        gold=records.official_gold,
        score=scoring.score,
        converters=in_formats(
            {"structured": choice_inputs, "sequence": sequence_inputs},
            learner="wikihop",
            **choice_fields(records.official_gold, explained.pool_explained),
        ),
    )
)
