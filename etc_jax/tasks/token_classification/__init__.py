"""Words with tags: names, parts of speech and the like, in one's own files.

    etc-jax prepare --task=token_classification --format=sequence \\
        --tokenizer=vocab.txt --input_length=512 --global_length=1 --out=prepared \\
        train.conll

Files are in CoNLL's columns or JSON lines; the tags are found in them and kept with the
inputs and the model. Entities are tagged by a scheme (`schemes.py`) and scored by
seqeval, plain tags by scikit-learn: both are in the extra "metrics".
"""

import dataclasses

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.tasks.token_classification import structured
from etc_jax.tasks.token_classification.decoding import (
    gold_outputs,
    official,
    official_gold,
    pool,
    tag_runs,
    unread_gold,
)
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.explained import explain
from etc_jax.tasks.token_classification.forms import ENTITIES
from etc_jax.tasks.token_classification.inputs import SIZES, features, record_length
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
    parse,
    read,
    release,
)
from etc_jax.tasks.token_classification.writing import in_input_layout

__all__ = [
    "DATA_SET",
    "SIZES",
    "Record",
    "TokenClassificationOptions",
    "features",
    "gold_outputs",
    "official_gold",
    "parse",
    "read",
]

SEQUENCE = FeatureConverter(
    learner="token_labels",
    sizes=SIZES,
    features=features,
    options=OPTIONS,
    decode=of_one_setting(tag_runs),
    explain=explain,
    pool=pool,
    pool_explained=ENTITIES["pool_explained"],
    gold_outputs=gold_outputs,
    record_length=record_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    sizes=structured.SIZES,
    features=structured.features,
    record_length=structured.record_length,
)

DATA_SET = registry.register("data_set", "token_classification")(
    DataSet(
        name="token_classification",
        read=read,
        parse=parse,
        release=release,
        metric=ENTITIES["metric"],
        no_answer=[],
        official=official,
        lines=True,
        in_input_layout=in_input_layout,
        gold=official_gold,
        score=ENTITIES["score"],
        right_share=ENTITIES["right_share"],
        unread_gold=unread_gold,
        converters={"sequence": SEQUENCE, "structured": STRUCTURED},
    )
)
