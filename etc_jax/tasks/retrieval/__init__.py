"""Retrieval of one's own: queries, the passages that answer them, hard negatives.

    etc-jax prepare --task=retrieval --tokenizer=vocab.txt \\
        --query_column=question --passage_column=text --out=prepared train.csv
    etc-jax prepare --task=retrieval --tokenizer=vocab.txt \\
        --out=prepared train-v1.1.json

One encoder makes the vectors of queries and passages. The score ranks, for each query,
the passages of all files together.
"""

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.tasks.retrieval import decoding, inputs, records

DATA_SET = register(
    DataSet(
        name="retrieval",
        read=records.read,
        parse=records.parse,
        release=records.release,
        metric="mrr",
        no_answer=None,
        official=decoding.official,
        together=True,
        gold=decoding.official_gold,
        score=decoding.score,
        converters=in_formats(
            {"sequence": inputs},
            learner="retrieval",
            decode=of_one_setting(decoding.encoded),
            explain=decoding.explain,
            gold_outputs=decoding.gold_outputs,
        ),
        absent={"structured": "its texts are read one by one, as one sequence each"},
    )
)
"""The data set, as commands and configs find it."""
