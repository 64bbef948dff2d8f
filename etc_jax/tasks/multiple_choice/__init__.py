"""Questions about a text with options to choose from: QuALITY, and one's own.

    etc-jax prepare --task=multiple_choice --format=sequence \\
        --tokenizer=vocab.json --input_length=4096 --global_length=64 --out=prepared \\
        QuALITY.v1.0.1.htmlstripped.train

Encoders of one sequence read each option with question and article, ETC all options in
one input, and models that write texts write the option.
"""

from etc_jax.datasets.choices import choice_fields
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.scoring import choices as scoring
from etc_jax.tasks.multiple_choice import (
    decoding,
    inputs,
    records,
    structured,
    text_converter,
)

_CHOICES = choice_fields(decoding.official_gold, decoding.pool_explained)

DATA_SET = register(
    DataSet(
        name="multiple_choice",
        read=records.read,
        parse=records.parse,
        release=records.release,
        metric="accuracy",
        no_answer=decoding.NO_OPTION,
        official=dict,
        gold=decoding.official_gold,
        score=scoring.score,
        unread_gold=decoding.unread_gold,
        converters={
            **in_formats({"sequence": inputs}, learner="choices", **_CHOICES),
            **in_formats({"structured": structured}, learner="wikihop", **_CHOICES),
            "text_to_text": text_converter.make_converter(),
        },
    )
)
