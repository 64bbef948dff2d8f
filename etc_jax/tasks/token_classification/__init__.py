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
from etc_jax.datasets.task import DataSet, Form
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
from etc_jax.tasks.token_classification.inputs import SIZES, features, whole_length
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
    parse,
    read,
    release,
)
from etc_jax.tasks.token_classification.writing import in_own_form

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

SEQUENCE = Form(
    learner="token_labels",
    sizes=SIZES,
    features=features,
    options=OPTIONS,
    decode=of_one_setting(tag_runs),
    explain=explain,
    pool=pool,
    pool_explained=ENTITIES["pool_explained"],
    gold_outputs=gold_outputs,
    whole_length=whole_length,
)
STRUCTURED = dataclasses.replace(
    SEQUENCE,
    sizes=structured.SIZES,
    features=structured.features,
    whole_length=structured.whole_length,
)

DATA_SET = registry.register("data_set", "token_classification")(
    DataSet(
        name="token_classification",
        read=read,
        parse=parse,
        release=release,
        measure=ENTITIES["measure"],
        no_answer=[],
        official=official,
        lines=True,
        in_own_form=in_own_form,
        gold=official_gold,
        score=ENTITIES["score"],
        right_share=ENTITIES["right_share"],
        unread_gold=unread_gold,
        forms={"sequence": SEQUENCE, "structured": STRUCTURED},
    )
)
