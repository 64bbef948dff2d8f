"""Words with tags: names, parts of speech and the like, in one's own files.

    etc-jax prepare --task=token_classification --format=sequence \\
        --tokenizer=vocab.txt --input_length=512 --global_length=1 --out=prepared \\
        train.conll

Files are in CoNLL's columns or JSON lines; the tags are found in them and kept with the
inputs and the model. Entities are tagged by a scheme (`schemes.py`) and scored by
seqeval, plain tags by scikit-learn: both are in the extra "metrics".
"""

from etc_jax.datasets.decoding import of_one_setting, with_records
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.tasks.token_classification import decoding, inputs, records, writing
from etc_jax.tasks.token_classification.forms import ENTITIES

DATA_SET = register(
    DataSet(
        name="token_classification",
        read=records.read,
        parse=records.parse,
        release=records.release,
        metric=ENTITIES["metric"],
        no_answer=[],
        official=decoding.official,
        lines=True,
        in_input_layout=writing.in_input_layout,
        gold=decoding.official_gold,
        score=ENTITIES["score"],
        right_share=ENTITIES["right_share"],
        unread_gold=decoding.unread_gold,
        converters=in_formats(
            {
                "sequence": inputs,
                "structured": {
                    "sizes": inputs.STRUCTURED_SIZES,
                    "record_length": inputs.structured_length,
                },
            },
            learner="token_labels",
            features=inputs.features,
            options=records.OPTIONS,
            decode=of_one_setting(decoding.tag_runs),
            explain=with_records(decoding.tag_runs),
            pool=decoding.pool,
            pool_explained=ENTITIES["pool_explained"],
            gold_outputs=decoding.gold_outputs,
        ),
    )
)
