"""Natural Questions: long and short answers (Kwiatkowski et al. 2019).

Metrics are those of `nq_eval.py`. A question has a gold answer if at least two of its
annotators gave one, and a prediction is right if it equals that of any annotator. A
prediction counts as an answer from some threshold of its score on; the threshold with
the best F1 over all questions is found here, as in the official metrics.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.scoring import files
from etc_jax.scoring.answers import harmonic_mean
from etc_jax.scoring.result import Scores

_LOG = logging.getLogger(__name__)

# How many annotators make a gold answer.
ENOUGH_ANNOTATORS = 2
PRECISIONS = (0.5, 0.75, 0.9)
# The mean of both best F1, which the ETC paper chooses models by.
AVERAGE_F1 = "average-f1"

_YES_NO = ("yes", "no", "none")
_OFFSETS = ("start_byte", "end_byte", "start_token", "end_token")


class Span(NamedTuple):
    """Half-open, in bytes of the HTML and in tokens; -1 is unknown, or none."""

    start_byte: int = -1
    end_byte: int = -1
    start_token: int = -1
    end_token: int = -1

    @property
    def is_null(self) -> bool:
        return max(self) < 0

    def equals(self, other: Span) -> bool:
        """Whether bytes are known of both and equal, or tokens are."""
        pairs = ((self[:2], other[:2]), (self[2:], other[2:]))
        return any(a == b and min(a) >= 0 for a, b in pairs)


class Label(NamedTuple):
    """The answers of an annotator or a system; `short` has no null spans."""

    long: Span
    short: tuple[Span, ...]
    yes_no: str

    @property
    def has_short(self) -> bool:
        return bool(self.short) or self.yes_no != "none"


class _Verdict(NamedTuple):
    """One question, for long or for short answers."""

    has_gold: bool
    has_prediction: bool
    is_right: bool
    score: float


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, Any]) -> Scores:
    """The official metrics that lie in 0..1, and `average-f1`.

    Args:
      gold: records with `example_id` and `annotations`, each of which has
        `long_answer`, `short_answers` and `yes_no_answer`.
      predictions: `{"predictions": [...]}`, each of which has `example_id`,
        `long_answer`, `long_answer_score`, `short_answers`, `short_answers_score` and
        `yes_no_answer`; one that is not there, or null, is no answer.

    Raises:
      ValueError: if there is no gold record, a value is not of these types, or the
        ids are not the same on both sides, each once; names the record.
    """
    official = official_metrics(gold, predictions)
    best = [official[f"{name}-best-threshold-f1"] for name in ("long", "short")]
    metrics = {k: v for k, v in official.items() if not k.endswith(("threshold", "-n"))}
    ids = [_identity(record, "gold") for record in gold]
    return Scores.of(
        {AVERAGE_F1: sum(best) / len(best), **metrics}, ids, {"prediction": ids}
    )


def official_metrics(
    gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, Any]
) -> dict[str, float]:
    """All official metrics, among them best thresholds and the number of questions.

    Arguments and errors are those of `score`.
    """
    annotated = check_gold(gold, "gold")
    predicted = check_predictions(predictions, "predictions")
    if not annotated:
        raise ValueError("gold: at least one record expected, got an empty list")
    # One record alone is of no file: it is judged by itself.
    if len(gold) > 1 and max(map(len, annotated.values())) < ENOUGH_ANNOTATORS:
        _LOG.warning(
            "all scores are 0: an answer is gold if %d annotators gave it, and no "
            "record has so many, as in training files; expected development files",
            ENOUGH_ANNOTATORS,
        )
    ids = [_identity(record, "gold") for record in gold]
    Scores.of({}, ids, {"prediction": list(predicted)}).require_same_ids()
    long, short = [], []
    for identity, labels in annotated.items():
        label, scores = predicted[identity]
        long.append(_long_verdict(labels, label, scores[0]))
        short.append(_short_verdict(labels, label, scores[1]))
    return _metrics("long", long) | _metrics("short", short)


# --- verdicts and metrics -------------------------------------------------------------


def _long_verdict(gold: Sequence[Label], label: Label, value: float) -> _Verdict:
    has_gold, _ = _gold_parts(gold)
    right = has_gold and any(
        label.long.equals(x.long) for x in gold if not x.long.is_null
    )
    return _Verdict(has_gold, not label.long.is_null, right, value)


def _short_verdict(gold: Sequence[Label], label: Label, value: float) -> _Verdict:
    _, has_gold = _gold_parts(gold)
    if label.yes_no != "none":
        right = any(label.yes_no == x.yes_no for x in gold)
    else:
        right = any(_same_set(label.short, x.short) for x in gold)
    has_prediction = label.has_short
    return _Verdict(
        has_gold, has_prediction, has_gold and has_prediction and right, value
    )


def _gold_parts(gold: Sequence[Label]) -> tuple[bool, bool]:
    """Whether enough annotators gave a long answer, and a short one."""
    counts = sum(not x.long.is_null for x in gold), sum(x.has_short for x in gold)
    return counts[0] >= ENOUGH_ANNOTATORS, counts[1] >= ENOUGH_ANNOTATORS


def right_share(gold: Mapping[str, Any], metrics: Mapping[str, float]) -> float | None:
    """How right the answers to one question are.

    The mean F1 of the answers, long and short, that the question has. None where it has
    neither: only a threshold over many questions decides whether a model answers.

    Args:
      gold: see `score`.
      metrics: of `score` for this question alone.
    """
    [annotated] = check_gold([gold], "gold").values()
    parts = zip(("long", "short"), _gold_parts(annotated), strict=True)
    f1s = [metrics[f"{name}-answer-f1"] for name, has_gold in parts if has_gold]
    return sum(f1s) / len(f1s) if f1s else None


def _same_set(first: Sequence[Span], second: Sequence[Span]) -> bool:
    return all(any(a.equals(b) for b in second) for a in first) and all(
        any(a.equals(b) for a in first) for b in second
    )


def _metrics(name: str, verdicts: Sequence[_Verdict]) -> dict[str, float]:
    points = _curve(verdicts)
    best, best_f1 = (0.0, 0.0, 0.0), 0.0
    for point in points:
        # Of equal F1 the higher threshold stays.
        if (f1 := harmonic_mean(*point[:2])) > best_f1:
            best, best_f1 = point, f1
    at_best = {"f1": best_f1, "precision": best[0], "recall": best[1]}
    result = {f"{name}-best-threshold-{k}": v for k, v in at_best.items()}
    result[f"{name}-best-threshold"] = best[2]
    for least in PRECISIONS:
        precision, recall = _most_recall(points, least)
        result[f"{name}-recall-at-precision>={least}"] = recall
        result[f"{name}-precision-at-precision>={least}"] = precision
    # Without a threshold.
    precision, recall, _ = points[-1]
    result[f"{name}-answer-n"] = len(verdicts)
    result[f"{name}-answer-f1"] = harmonic_mean(precision, recall)
    result[f"{name}-answer-precision"] = precision
    result[f"{name}-answer-recall"] = recall
    return result


def _curve(verdicts: Sequence[_Verdict]) -> list[tuple[float, float, float]]:
    """(precision, recall, threshold) of each score that there is, from the highest."""
    total = sum(v.has_gold for v in verdicts)
    right = answered = 0
    points: dict[float, tuple[float, float, float]] = {}
    # From the highest score down, each threshold answers more questions.
    for v in sorted(verdicts, key=lambda v: -v.score):
        right += v.is_right
        answered += v.has_prediction
        # Later ones of the same score overwrite: a point counts them all.
        points[v.score] = (_share(right, answered), _share(right, total), v.score)
    return list(points.values())


def _most_recall(points, least: float) -> tuple[float, float]:
    """(precision, recall) of the first point of most recall with enough precision."""
    most = (0.0, 0.0)
    for precision, recall, _ in points:
        if precision >= least and recall > most[1]:
            most = precision, recall
    return most


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# --- checks ---------------------------------------------------------------------------


def check_gold(records: Any, where: str) -> dict[str, tuple[Label, ...]]:
    """The annotators' labels by id, if records can be scored against.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    labels = {}
    for record, identity, at in _identified(records, where):
        annotations = files.field(record, "annotations", list, at)
        labels[identity] = tuple(
            _gold_label(x, f"{at}, annotation {i}") for i, x in enumerate(annotations)
        )
    return labels


def _gold_label(value: Any, at: str) -> Label:
    files.typed(value, dict, at)
    kinds = {"long_answer": dict, "short_answers": list, "yes_no_answer": str}
    for name, kind in kinds.items():
        files.field(value, name, kind, at)
    return _label(value, at)


def check_predictions(
    value: Any, where: str
) -> dict[str, tuple[Label, tuple[float, float]]]:
    """(label, scores of its long and short answer) by id, if they are predictions.

    Raises:
      ValueError: naming `where`, the record and the field, if not.
    """
    items = files.field(files.typed(value, dict, where), "predictions", list, where)
    by_id = {}
    for item, identity, at in _identified(items, f"{where}, predictions"):
        if identity in by_id:
            raise ValueError(f"{at}: a second prediction for {identity}; expected one")
        label = _label(item, at)
        if label.yes_no != "none" and label.short:
            raise ValueError(
                f"{at}: yes_no_answer is {label.yes_no!r} beside short answers; "
                "expected one of both"
            )
        scores = (
            _score(item, "long_answer_score", at),
            _score(item, "short_answers_score", at),
        )
        by_id[identity] = (label, scores)
    return by_id


def _identified(records: Any, where: str) -> Iterator[tuple[dict, str, str]]:
    for number, record in enumerate(files.typed(records, list, where)):
        at = f"{where}, record {number}"
        identity = _identity(files.typed(record, dict, at), at)
        yield record, identity, f"{at} ({identity})"


def _identity(record: Mapping[str, Any], at: str) -> str:
    """The id as text: official files have numbers, simplified ones text too."""
    if type(record.get("example_id")) is int:
        return str(record["example_id"])
    return files.field(dict(record), "example_id", str, at)


def _label(value: dict, at: str) -> Label:
    long = value.get("long_answer")
    listed = value.get("short_answers")
    answer = value.get("yes_no_answer", "none")
    listed = [] if listed is None else files.typed(listed, list, f"{at}, short_answers")
    short = [_span(x, f"{at}, short_answers[{i}]") for i, x in enumerate(listed)]
    long = Span() if long is None else _span(long, f"{at}, long_answer")
    yes_no = files.typed(answer, str, f"{at}, yes_no_answer").lower()
    if yes_no not in _YES_NO:
        raise ValueError(
            f"{at}: yes_no_answer is {answer!r}, expected one of {_YES_NO}"
        )
    return Label(long, tuple(s for s in short if not s.is_null), yes_no)


def _span(value: Any, at: str) -> Span:
    files.typed(value, dict, at)
    numbers = [value.get(name, -1) for name in _OFFSETS]
    for name, number in zip(_OFFSETS, numbers, strict=True):
        if type(number) is not int:
            raise ValueError(f"{at}: {name} is {number!r}, expected a whole number")
    span = Span(*numbers)
    for unit, (start, end) in (("byte", span[:2]), ("token", span[2:])):
        if not (start < 0 and end < 0) and not 0 <= start < end:
            raise ValueError(
                f"{at}: from {unit} {start} to {unit} {end}; expected a start before "
                "the end, or -1 for both"
            )
    return span


def _score(item: dict, name: str, at: str) -> float:
    value = item.get(name)
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{at}: {name} is {value!r}, expected a finite number")
    return value
