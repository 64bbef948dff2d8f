"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), and one's own questions and answers.

An encoder points at the answer in its context; other models read SQuAD as text and
write it:

    etc-jax prepare --task=squad --format=sequence --tokenizer=vocab.txt \\
        --out=prepared/squad train-v2.0.json
    etc-jax prepare --task=squad --format=sequence --tokenizer=vocab.txt \\
        --question_column=q --context_column=text --out=prepared/own own.csv
    etc-jax prepare --task=squad --tokenizer=spiece.model \\
        --out=prepared/squad_text train-v1.1.json

The first answer is learnt. Any answer of a question is right in the score.
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.span_inputs import sequence_length, structured_length
from etc_jax.datasets.spans import gold_outputs_of
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.tasks.squad import structured
from etc_jax.tasks.squad.decoding import (
    official,
    official_gold,
    pool,
    score,
    summarise,
    thresholds,
    unread_gold,
    why_lost,
)
from etc_jax.tasks.squad.explained import explain, pool_explained
from etc_jax.tasks.squad.inputs import (
    OPTIONS,
    SIZES,
    SpanOptions,
    SquadWindow,
    features,
)
from etc_jax.tasks.squad.records import Record, parse, read, release_values
from etc_jax.tasks.squad.text import TEXT, pair_of

__all__ = [
    "DATA_SET",
    "SIZES",
    "Record",
    "SpanOptions",
    "SquadWindow",
    "features",
    "pair_of",
    "parse",
    "read",
]

SEQUENCE = FeatureConverter(
    learner="spans",
    sizes=SIZES,
    features=features,
    options=OPTIONS,
    decode=summarise,
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs_of(official_gold),
    why_lost=why_lost,
    record_length=sequence_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    sizes=structured.SIZES,
    features=structured.features,
    record_length=structured_length,
)

DATA_SET = registry.register("data_set", "squad")(
    DataSet(
        name="squad",
        read=read,
        parse=parse,
        release=release_values,
        metric="f1",
        no_answer="",
        official=official,
        several=True,
        gold=official_gold,
        score=score,
        unread_gold=unread_gold,
        thresholds=thresholds,
        # The first one is that of earlier versions, whose commands do not name it.
        converters={
            "text_to_text": TEXT,
            "sequence": SEQUENCE,
            "structured": STRUCTURED,
        },
    )
)
"""The data set, as commands and configs find it."""
