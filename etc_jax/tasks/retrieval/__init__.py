"""Retrieval of one's own: queries, the passages that answer them, hard negatives.

    etc-jax prepare --task=retrieval --tokenizer=vocab.txt \\
        --query_column=question --passage_column=text --out=prepared train.csv
    etc-jax prepare --task=retrieval --tokenizer=vocab.txt \\
        --out=prepared train-v1.1.json

One encoder makes the vectors of queries and passages. The score ranks, for each query,
the passages of all files together.
"""

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.tasks.retrieval.decoding import (
    Vectors,
    encoded,
    gold_outputs,
    official,
    official_gold,
    score,
)
from etc_jax.tasks.retrieval.explained import explain
from etc_jax.tasks.retrieval.inputs import (
    SIZES,
    RetrievalWindow,
    features,
    record_length,
)
from etc_jax.tasks.retrieval.records import (
    OPTIONS,
    Record,
    RetrievalOptions,
    parse,
    read,
    release,
)

__all__ = [
    "DATA_SET",
    "SIZES",
    "Record",
    "RetrievalOptions",
    "RetrievalWindow",
    "Vectors",
    "features",
    "parse",
    "read",
]

DATA_SET = registry.register("data_set", "retrieval")(
    DataSet(
        name="retrieval",
        read=read,
        parse=parse,
        release=release,
        metric="mrr",
        no_answer=None,
        official=official,
        together=True,
        gold=official_gold,
        score=score,
        converters={
            "sequence": FeatureConverter(
                learner="retrieval",
                sizes=SIZES,
                features=features,
                options=OPTIONS,
                decode=of_one_setting(encoded),
                explain=explain,
                gold_outputs=gold_outputs,
                record_length=record_length,
            )
        },
        absent={"structured": "its texts are read one by one, as one sequence each"},
    )
)
"""The data set, as commands and configs find it."""
