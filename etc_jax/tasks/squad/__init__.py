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

from etc_jax.datasets.decoding import of_one_setting, with_records
from etc_jax.datasets.span_inputs import span_converters
from etc_jax.datasets.task import DataSet, register
from etc_jax.tasks.squad import decoding, inputs, records, text

DATA_SET = register(
    DataSet(
        name="squad",
        read=records.read,
        parse=records.parse,
        release=records.release,
        metric="f1",
        no_answer="",
        official=decoding.official,
        several=True,
        gold=decoding.official_gold,
        score=decoding.score,
        unread_gold=decoding.unread_gold,
        thresholds=decoding.thresholds,
        # The first one is that of earlier versions, whose commands do not name it.
        converters={
            "text_to_text": text.TEXT,
            **span_converters(
                inputs.features,
                {"sequence": inputs.SIZES, "structured": inputs.STRUCTURED_SIZES},
                decoding.official_gold,
                options=inputs.OPTIONS,
                decode=of_one_setting(decoding.summarise),
                explain=with_records(decoding.summarise),
                pool=decoding.pool,
                pool_explained=decoding.pool_explained,
                why_lost=decoding.why_lost,
            ),
        },
    )
)
"""The data set, as commands and configs find it."""
