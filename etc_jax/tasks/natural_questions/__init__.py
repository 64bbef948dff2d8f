"""Natural Questions (Kwiatkowski et al. 2019).

A record is a question over an article of Wikipedia. A long answer is one of the
article's paragraphs, tables or lists, a short answer a span in it, or yes or no; there
may be neither. An article is cut into windows, of which one prediction is made.

    task = DATA_SET.in_format("structured")
    predictions = {}
    for record in task.read(["nq-dev-00.jsonl.gz"], Problems()):
        windows = task.features(record, tokenizer)
        predictions |= task.answers(outputs_fn(windows), windows)
    task.write(predictions, "predictions.json")
"""

import dataclasses
from collections.abc import Sequence

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks.natural_questions import sequence_inputs
from etc_jax.tasks.natural_questions.decoding import (
    NO_ANSWER,
    Outputs,
    Prediction,
    Summary,
    gold_outputs,
    official,
    official_gold,
    pool,
    summarise,
    unread_gold,
)
from etc_jax.tasks.natural_questions.explained import explain, pool_explained
from etc_jax.tasks.natural_questions.inputs import (
    SIZES,
    SIZES_512,
    SIZES_8192,
    NaturalQuestionsOptions,
    NaturalQuestionsWindow,
    features,
    record_length,
)
from etc_jax.tasks.natural_questions.records import Annotation, Record, parse, read
from etc_jax.tasks.natural_questions.spans import MODES
from etc_jax.tasks.natural_questions.upper_bound import agreed, why_lost
from etc_jax.tasks.natural_questions.windows import DRAWN_BY

__all__ = [
    "MODES",
    "NO_ANSWER",
    "SIZES",
    "SIZES_512",
    "SIZES_8192",
    "DATA_SET",
    "Annotation",
    "NaturalQuestionsWindow",
    "NaturalQuestionsOptions",
    "Outputs",
    "Prediction",
    "Record",
    "Summary",
    "features",
    "gold_outputs",
    "official",
    "official_gold",
    "parse",
    "pool",
    "read",
    "summarise",
]


def _thresholds(gold: Sequence, content: dict) -> dict[str, float]:
    """The scores from which on answers count, officially those of the best F1."""
    metrics = scoring.official_metrics(gold, content)
    names = ("long-best-threshold", "short-best-threshold")
    return {name: metrics[name] for name in names}


STRUCTURED = FeatureConverter(
    learner="natural_questions",
    sizes=SIZES,
    features=features,
    options=NaturalQuestionsOptions(),
    drawn_by=DRAWN_BY,
    decode=of_one_setting(summarise),
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    record_length=record_length,
)

SEQUENCE = dataclasses.replace(
    STRUCTURED,
    tokens=sequence_inputs.TOKENS,
    sizes=sequence_inputs.SIZES,
    features=sequence_inputs.features,
    options=sequence_inputs.OPTIONS,
    record_length=sequence_inputs.record_length,
)

DATA_SET = registry.register("data_set", "natural_questions")(
    DataSet(
        name="natural_questions",
        read=read,
        parse=parse,
        metric=scoring.AVERAGE_F1,
        no_answer=NO_ANSWER,
        official=official,
        gold=official_gold,
        score=scoring.score,
        unread_gold=unread_gold,
        right_share=scoring.right_share,
        thresholds=_thresholds,
        agreed=agreed,
        converters={"structured": STRUCTURED, "sequence": SEQUENCE},
    )
)
