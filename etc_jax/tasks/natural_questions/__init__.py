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

from collections.abc import Sequence

from etc_jax.datasets.decoding import of_one_setting, with_records
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks.natural_questions import (
    decoding,
    explained,
    inputs,
    records,
    sequence_inputs,
    upper_bound,
    windows,
)


def _thresholds(gold: Sequence, content: dict) -> dict[str, float]:
    """The scores from which on answers count, officially those of the best F1."""
    metrics = scoring.official_metrics(gold, content)
    names = ("long-best-threshold", "short-best-threshold")
    return {name: metrics[name] for name in names}


DATA_SET = register(
    DataSet(
        name="natural_questions",
        read=records.read,
        parse=records.parse,
        metric=scoring.AVERAGE_F1,
        no_answer=decoding.NO_ANSWER,
        official=decoding.official,
        gold=decoding.official_gold,
        score=scoring.score,
        unread_gold=decoding.unread_gold,
        right_share=scoring.right_share,
        thresholds=_thresholds,
        agreed=upper_bound.agreed,
        converters=in_formats(
            {"structured": inputs, "sequence": sequence_inputs},
            learner="natural_questions",
            drawn_by=windows.DRAWN_BY,
            decode=of_one_setting(decoding.summarise),
            explain=with_records(decoding.summarise),
            pool=decoding.pool,
            pool_explained=explained.pool_explained,
            gold_outputs=decoding.gold_outputs,
            why_lost=upper_bound.why_lost,
        ),
    )
)
