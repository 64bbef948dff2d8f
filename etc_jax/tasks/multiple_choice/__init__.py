"""Questions about a text with options to choose from: QuALITY, and one's own.

    etc-jax prepare --task=multiple_choice --format=sequence \\
        --tokenizer=vocab.json --input_length=4096 --global_length=64 --out=prepared \\
        QuALITY.v1.0.1.htmlstripped.train

Encoders of one sequence read each option with question and article, ETC all options in
one input, and models that write texts write the option.
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.choices import explain, gold_outputs_of, pool, rated
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.scoring import choices as scoring
from etc_jax.tasks.multiple_choice import structured
from etc_jax.tasks.multiple_choice.decoding import (
    NO_OPTION,
    official,
    official_gold,
    unread_gold,
)
from etc_jax.tasks.multiple_choice.explained import pool_explained
from etc_jax.tasks.multiple_choice.inputs import (
    OPTIONS,
    SIZES,
    ChoiceOptions,
    features,
    record_length,
)
from etc_jax.tasks.multiple_choice.records import (
    COLUMNS,
    Record,
    parse,
    read,
    release,
)
from etc_jax.tasks.multiple_choice.text_converter import make_converter, pair_of

__all__ = [
    "DATA_SET",
    "SIZES",
    "ChoiceOptions",
    "Record",
    "features",
    "pair_of",
    "parse",
    "read",
]

SEQUENCE = FeatureConverter(
    learner="choices",
    sizes=SIZES,
    features=features,
    options=OPTIONS,
    decode=of_one_setting(rated),
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs_of(official_gold),
    record_length=record_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    learner="wikihop",
    sizes=structured.SIZES,
    features=structured.features,
    options=COLUMNS,
    record_length=structured.record_length,
)

DATA_SET = registry.register("data_set", "multiple_choice")(
    DataSet(
        name="multiple_choice",
        read=read,
        parse=parse,
        release=release,
        metric="accuracy",
        no_answer=NO_OPTION,
        official=official,
        gold=official_gold,
        score=scoring.score,
        unread_gold=unread_gold,
        converters={
            "sequence": SEQUENCE,
            "structured": STRUCTURED,
            "text_to_text": make_converter(),
        },
    )
)
