"""Why a gold answer is lost between record and input; see `tasks.upper_bound`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks.natural_questions.decoding import (
    MAX_SHORT_WORDS,
    Prediction,
    official,
    official_gold,
)
from etc_jax.tasks.natural_questions.labels import chosen_annotation, short_span
from etc_jax.tasks.natural_questions.records import Annotation, Record, Span, top_spans
from etc_jax.tasks.natural_questions.windows import ArticleWindow


def agreed(record: Record) -> Record:
    """A lone annotator, as in training files, as two who agree: the metric asks for
    two. Both best F1 are 1 if and only if nothing is lost.

    Raises:
      ValueError: if the record has no annotation.
    """
    if record.annotations is None:
        raise ValueError(
            f"{record.id!r} has no annotation; give files of training or development"
        )
    times = scoring.ENOUGH_ANNOTATORS if len(record.annotations) == 1 else 1
    return dataclasses.replace(record, annotations=record.annotations * times)


def why_lost(windows: Sequence[ArticleWindow], prediction: Prediction) -> Iterator[str]:
    """Why a record's prediction is not its gold answer."""
    record = windows[0].record
    annotation = chosen_annotation(record.annotations or ())
    metrics = scoring.official_metrics(
        [official_gold(record)], official({record.id: prediction})
    )
    if annotation.long and not metrics["long-answer-recall"]:
        span = annotation.long
        reason = _unseen(record, span) or f"prediction is {prediction['long']}"
        if span not in record.candidates:
            reason = "it is no candidate"
        yield f"long answer, words {list(span)}: {reason}"
    if annotation.has_short and not metrics["short-answer-recall"]:
        answer = annotation.yes_no
        if answer == "none":
            answer = [list(s) for s in annotation.short]
        yield f"short answer {answer}: {_short_reason(record, annotation, prediction)}"


def _short_reason(
    record: Record, annotation: Annotation, prediction: Prediction
) -> str:
    if annotation.yes_no != "none":
        return "the long answer, which would show why, is not found"
    if len(annotation.short) > 1:
        return "of several spans, where one can be said"
    start, stop = span = short_span(annotation)
    if stop - start > MAX_SHORT_WORDS:
        return f"{stop - start} words, where {MAX_SHORT_WORDS} are the most"
    if reason := _unseen(record, span):
        return reason
    if prediction["short_score"] <= 0:
        return "no token stands for it"
    return f"tokens say {prediction['short']}"


def _unseen(record: Record, span: Span) -> str | None:
    for _, (start, stop) in top_spans(record):
        if start <= span[0] and span[1] <= stop:
            return None
    return "it is in no top-level candidate, and the rest is no input"
