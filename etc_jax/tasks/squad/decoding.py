"""From logits of first and last tokens to answers, n-best lists and no answer.

    summaries = summarise(outputs, windows)
    prediction = pool(summaries_of_the_record)

A span has the sum of its two logits as its score, over all windows of a record; no
answer has that of the first token, the least of all windows (Devlin et al. 2019, 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.decoding import softmax
from etc_jax.datasets.explained import Candidate, Explained, Wording, any_of
from etc_jax.datasets.spans import Outputs, check_logits, marked_document, span_scores
from etc_jax.datasets.task import PREDICTIONS
from etc_jax.scoring import answers as answers_scoring, squad as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.squad.inputs import NOWHERE, OPTIONS, SpanOptions, SpanWindow
from etc_jax.tasks.squad.records import Record

# Files beside the official one, named as BERT's script names them.
NULL_ODDS, N_BEST = "null_odds.json", "nbest_predictions.json"

# What `summarise` gives of a window, and `pool` of a record.
Summary = dict[str, Any]
Prediction = dict[str, Any]


def summarise(
    outputs: Outputs, windows: Sequence[SpanWindow], *, options: SpanOptions = OPTIONS
) -> list[Summary]:
    """What pooling needs of each window, as JSON takes it.

    Args:
      outputs: logits of a model.
      windows: as `features` made them, in order.
      options: how long answers may be, and how many are kept.

    Returns:
      Of each window `null`, the two logits of its first token, and `spans`: the best
      ones, [first logit, last logit, first character, one past the last, text] each.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    check_logits(outputs, windows)
    return [
        _summary(start, end, window, options)
        for start, end, window in zip(outputs.start, outputs.end, windows, strict=True)
    ]


def _summary(
    start: np.ndarray, end: np.ndarray, window: SpanWindow, options: SpanOptions
) -> Summary:
    scores = span_scores(start, end, window.document, most=options.max_answer_tokens)
    best = np.argsort(-scores, axis=None, kind="stable")[: options.n_best]
    spans = []
    for first, more in zip(*np.unravel_index(best, scores.shape), strict=True):
        if scores[first, more] == -np.inf:
            break
        _, (a, b) = window.span_of(first, first + more)
        text = window.record.context[a:b]
        spans.append([float(start[first]), float(end[first + more]), a, b, text])
    return {"null": [float(start[NOWHERE]), float(end[NOWHERE])], "spans": spans}


# --- pooling --------------------------------------------------------------------------


def best_spans(summaries: Sequence[Summary], most: int) -> list[list[Any]]:
    """The spans of all windows of a record, best first, each text once.

    Args:
      summaries: of the windows, in order.
      most: that are kept.
    """
    spans = (span for summary in summaries for span in summary["spans"])
    best: dict[str, list[Any]] = {}
    for span in sorted(spans, key=lambda span: -(span[0] + span[1])):
        if span[-1]:
            best.setdefault(span[-1], span)
    return list(best.values())[:most]


def pool(summaries: Sequence[Summary], *, options: SpanOptions = OPTIONS) -> Prediction:
    """The prediction of a record.

    Args:
      summaries: of all its windows, in order.
      options: whether there may be no answer, and from which score on.

    Returns:
      `text`, "" for no answer; `nbest`: text, probability among them and logits of
      each answer, best first, with no answer among them if there may be none; and then
      `null_odds`, the score of no answer less that of the best span.
    """
    spans = best_spans(summaries, options.n_best)
    listed = [(text, start, end) for start, end, _, _, text in spans]
    null = min((summary["null"] for summary in summaries), key=sum)
    if options.unanswerable:
        listed.append(("", *null))
        listed.sort(key=lambda entry: -(entry[1] + entry[2]))
    scores = np.array([start + end for _, start, end in listed])
    odds = softmax(scores).tolist() if listed else []
    prediction: Prediction = {
        "text": spans[0][-1] if spans else "",
        "nbest": [
            {"text": text, "probability": p, "start_logit": start, "end_logit": end}
            for p, (text, start, end) in zip(odds, listed, strict=True)
        ],
    }
    if options.unanswerable:
        best = spans[0][0] + spans[0][1] if spans else 0.0
        prediction["null_odds"] = sum(null) - best
        if prediction["null_odds"] > options.null_threshold:
            prediction["text"] = ""
    return prediction


# --- for a reader ---------------------------------------------------------------------

NO_ANSWER = "(no answer)"
WORDING = Wording(
    support="Found in",
    candidates="Best {} answers",
    legend="Marked: the answer, where the model found it. Probabilities are among the "
    "answers that are listed.",
)


def pool_explained(
    seen: Sequence[tuple[Record, Summary]], *, options: SpanOptions = OPTIONS
) -> Explained:
    """The answer with the other ones that are likely, and the context.

    Args:
      seen: (record, summary) of all windows of a record.
      options: see `pool`.
    """
    record, summaries = seen[0][0], [summary for _, summary in seen]
    prediction, gold = pool(summaries, options=options), record.answers
    right = {x.text for x in gold} or {""} if gold is not None else ()
    candidates = tuple(
        Candidate(
            entry["text"] or NO_ANSWER, entry["probability"], entry["text"] in right
        )
        for entry in prediction["nbest"]
    )
    span, probability = (0, 0), 0.0
    if text := prediction["text"]:
        _, _, first, stop, _ = best_spans(summaries, 1)[0]
        span = (first, stop)
        probability = next(x.probability for x in candidates if x.text == text)
    return Explained(
        record.id,
        record.question,
        text,
        (marked_document(record.documents[0], span, probability),),
        candidates,
        reference=None if gold is None else any_of([x.text for x in gold]),
        confidence=next(
            (x.probability for x in candidates if x.text == (text or NO_ANSWER)), None
        ),
        prediction=prediction,
        wording=WORDING,
    )


# --- files ----------------------------------------------------------------------------


def official(predictions: Mapping[str, Prediction | str]) -> dict[str, Any]:
    """{file name: content} of predictions by record id.

    Args:
      predictions: of `pool`, or texts that a model has written.
    """
    spans = {k: p for k, p in predictions.items() if not isinstance(p, str)}
    texts = {k: p if isinstance(p, str) else p["text"] for k, p in predictions.items()}
    files: dict[str, Any] = {PREDICTIONS: texts}
    if spans:
        files[N_BEST] = {name: p["nbest"] for name, p in spans.items()}
    if odds := {k: p["null_odds"] for k, p in spans.items() if "null_odds" in p}:
        files[NULL_ODDS] = odds
    return files


def official_gold(record: Record) -> dict[str, Any] | None:
    """What `score` needs of a record; None without gold answers."""
    if record.answers is None:
        return None
    return {"id": record.id, "answers": [answer.text for answer in record.answers]}


def unread_gold(name: str) -> dict[str, Any]:
    """What `score` takes for a record that could not be read: an answer not given."""
    return {"id": name, "answers": ["(not read)"]}


def score(gold: Sequence[Mapping[str, Any]], files: Mapping[str, Any]) -> Scores:
    """The official metrics; see `scoring.squad.score_answers`.

    Args:
      gold: of `official_gold`.
      files: of `official`.
    """
    return scoring.score_answers(
        [(x["id"], x["answers"]) for x in gold], files[PREDICTIONS], _null_odds(files)
    )


def thresholds(
    gold: Sequence[Mapping[str, Any]], files: Mapping[str, Any]
) -> dict[str, float] | None:
    """The thresholds of the best metrics: `null_threshold` is that of F1.

    None where all questions have an answer, or the model gives one to each.
    """
    questions, odds = [(x["id"], x["answers"]) for x in gold], _null_odds(files)
    if odds is None or all(truths for _, truths in questions):
        return None
    best = scoring.best_thresholds(questions, odds)
    return {
        "null_threshold": best["best_f1"][1],
        "best_exact_threshold": best["best_exact"][1],
    }


def _null_odds(files: Mapping[str, Any]) -> scoring.NullOdds | None:
    if NULL_ODDS not in files:
        return None
    texts = {
        name: next((x["text"] for x in listed if x["text"]), "")
        for name, listed in files[N_BEST].items()
    }
    return scoring.NullOdds(files[NULL_ODDS], texts)


def why_lost(windows: Sequence[SpanWindow], prediction: Prediction) -> Iterator[str]:
    """Why the windows of a record do not give its first gold answer back."""
    answers = windows[0].record.answers
    wanted, text = answers[0].text if answers else "", prediction["text"]
    if not answers_scoring.exact_match(text, wanted):
        yield f"{wanted!r}: {windows[0].unusable or f'tokens say {text!r}'}"
