"""TriviaQA (Joshi et al. 2017).

A record is a question and documents found for it. Of the answer all names are known,
but no place: every place where the documents have one of them may tell it.

    task = DATA_SET.in_format("sequence")
    for record in task.read(["triviaqa-rc/qa/wikipedia-dev.json"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(outputs, windows), "predictions.json")
"""

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.span_inputs import span_converters
from etc_jax.datasets.task import DataSet, register
from etc_jax.tasks.triviaqa import decoding, inputs, records

DATA_SET = register(
    DataSet(
        name="triviaqa",
        read=records.read,
        parse=records.parse,
        release=records.release,
        metric="f1",
        no_answer="",
        official=dict,
        gold=decoding.official_gold,
        score=decoding.score,
        converters=span_converters(
            inputs.features,
            {"sequence": inputs.SIZES, "structured": inputs.STRUCTURED_SIZES},
            decoding.official_gold,
            decode=of_one_setting(decoding.answers),
            explain=decoding.explain,
            why_lost=decoding.why_lost,
        ),
    )
)
