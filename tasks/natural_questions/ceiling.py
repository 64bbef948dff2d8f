"""The best possible score on Natural Questions; see `tasks.ceiling`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.structured import Sizes
from etc_jax.scoring import natural_questions as scoring
from tasks.ceiling_report import Ceiling, Loss
from tasks.natural_questions.decoding import (
    MAX_SHORT_WORDS,
    NO_ANSWER,
    Prediction,
    gold_outputs,
    official,
    official_gold,
    pool,
    summarise,
)
from tasks.natural_questions.features import Options, features
from tasks.natural_questions.labels import chosen_annotation, short_span
from tasks.natural_questions.records import Annotation, Record, Span, read, top_spans


def natural_questions_ceiling(
    paths: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    sizes: Sizes,
    options: Options = Options(),  # noqa: B008  (frozen)
) -> Ceiling:
    """The ceiling of Natural Questions files.

    A lone annotator, as in training files, counts as two who agree: the measure asks
    for two. Both best F1 are 1 if and only if nothing is lost and some question has an
    answer.

    Raises:
      ValueError: if there is no record, or one has no annotation.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions: dict[str, Prediction] = {}
    for record in read(paths, problems):
        record = _agreed(record)
        predictions[record.id] = NO_ANSWER
        try:
            windows = features(record, tokenizer, sizes, options=options)
            predictions[record.id] = pool(summarise(gold_outputs(windows), windows))
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
        gold.append(official_gold(record))
        reasons = lost(record, predictions[record.id])
        losses += [Loss(record.id, reason) for reason in reasons]
    return Ceiling(scoring.score(gold, official(predictions)), tuple(losses), problems)


def _agreed(record: Record) -> Record:
    if record.annotations is None:
        raise ValueError(
            f"{record.id!r} has no annotation; give files of training or development"
        )
    times = scoring.ENOUGH_ANNOTATORS if len(record.annotations) == 1 else 1
    return dataclasses.replace(record, annotations=record.annotations * times)


def lost(record: Record, prediction: Prediction) -> Iterator[str]:
    """Why a record's prediction is not its gold answer."""
    said = chosen_annotation(record.annotations or ())
    found = scoring.figures([official_gold(record)], official({record.id: prediction}))
    if said.long and not found["long-answer-recall"]:
        reason = _unseen(record, said.long) or f"prediction is {prediction['long']}"
        if said.long not in record.candidates:
            reason = "it is no candidate"
        yield f"long answer, words {list(said.long)}: {reason}"
    if said.has_short and not found["short-answer-recall"]:
        answer = said.yes_no if said.yes_no != "none" else [list(s) for s in said.short]
        yield f"short answer {answer}: {_short_reason(record, said, prediction)}"


def _short_reason(record: Record, said: Annotation, prediction: Prediction) -> str:
    if said.yes_no != "none":
        return "the long answer, which would show why, is not found"
    if len(said.short) > 1:
        return "of several spans, where one can be said"
    start, stop = span = short_span(said)
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
