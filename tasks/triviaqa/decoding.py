"""From TriviaQA logits to answers, and to a file."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.scoring import triviaqa as scoring
from etc_jax.scoring.result import Scores
from tasks.triviaqa.inputs import DocumentsWindow
from tasks.triviaqa.records import Record

MAX_ANSWER_TOKENS = 30

_SURE = 20.0


class Outputs(NamedTuple):
    """`[b, n]`: the logits of each token to begin, and to end, the answer."""

    start: np.ndarray
    end: np.ndarray


class ScoredSpan(NamedTuple):
    """An answer in an input.

    Attributes:
      first, last: its tokens.
      score: log-probability of the first and of the last token among those of the
        documents, summed.
    """

    first: int
    last: int
    score: float


def decode(outputs: Outputs, windows: Sequence[DocumentsWindow]) -> dict[str, str]:
    """The text of the best span of each window, by record id.

    Args:
      outputs: logits of a model.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    found = decode_each(outputs, windows)
    return {w.record.id: answer for w, [answer] in zip(windows, found, strict=True)}


def decode_each(
    outputs: Outputs,
    windows: Sequence[DocumentsWindow],
    settings: Sequence[None] = (None,),
) -> list[list[str]]:
    """The prediction of each setting, of which there is one, for each window.

    Raises:
      ValueError: see `decode`.
    """
    answers = [
        answer_text(window, span)
        for window, span in zip(windows, best_spans(outputs, windows), strict=True)
    ]
    return [[answer] * len(settings) for answer in answers]


def best_spans(
    outputs: Outputs, windows: Sequence[DocumentsWindow]
) -> list[ScoredSpan]:
    """The best span of each window, of `MAX_ANSWER_TOKENS` at most.

    Raises:
      ValueError: see `decode`.
    """
    n = len(windows[0].document) if windows else 0
    for name, logits in (("start", outputs.start), ("end", outputs.end)):
        got = tuple(np.shape(logits))
        if windows and got != (len(windows), n):
            raise ValueError(
                f"{name} logits have shape {got}, expected {(len(windows), n)}: give "
                "the outputs of these windows, in their order"
            )
    found = []
    for start, end, window in zip(outputs.start, outputs.end, windows, strict=True):
        if not (np.isfinite(start).all() and np.isfinite(end).all()):
            raise ValueError(
                f"logits of {window.record.id!r} hold NaN or infinity; expected numbers"
            )
        found.append(best_span(start, end, window.document))
    return found


def best_span(
    start: np.ndarray,
    end: np.ndarray,
    document: np.ndarray,
    *,
    most: int = MAX_ANSWER_TOKENS,
) -> ScoredSpan:
    """The span with the largest sum of log-probabilities, within one document.

    Of equal ones the first counts, and of those the shortest.

    Args:
      start: `[n]`, logits of each token to be the first.
      end: `[n]`, of each token to be the last.
      document: int `[n]`, document of each token; -1 for those that are no answer.
        There is at least one that may be.
      most: tokens of an answer.
    """
    n, is_answer = len(document), document >= 0
    start, end = (_log_probabilities(x, is_answer) for x in (start, end))
    scores = np.full((n, min(most, n)), -np.inf)
    for more in range(scores.shape[1]):
        within = document[: n - more] == document[more:]
        pairs = start[: n - more] + end[more:]
        scores[: n - more, more] = np.where(within, pairs, -np.inf)
    first, more = np.unravel_index(np.argmax(scores), scores.shape)
    return ScoredSpan(int(first), int(first + more), float(scores[first, more]))


def _log_probabilities(logits: np.ndarray, is_answer: np.ndarray) -> np.ndarray:
    """float64 `[n]`, of the tokens that may be; -inf for the others."""
    logits = np.where(is_answer, np.float64(logits), -np.inf)
    return logits - np.logaddexp.reduce(logits)


def answer_text(window: DocumentsWindow, span: ScoredSpan) -> str:
    """The words of a span, as the document spells them."""
    number, (start, stop) = window.span_of(span.first, span.last)
    return " ".join(window.record.documents[number].text[start:stop].split())


# --- files ----------------------------------------------------------------------------


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a record; None without a gold answer."""
    if record.aliases is None:
        return None
    return {"id": record.id, "aliases": list(record.aliases)}


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """The official metrics; see `scoring.triviaqa.score`.

    Args:
      gold: of `official_gold`.
      predictions: answers by record id.
    """
    return scoring.score({x["id"]: x["aliases"] for x in gold}, predictions)


def write(predictions: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes {record id: answer}, the official prediction file."""
    pathlib.Path(path).write_text(json.dumps(dict(predictions)), encoding="utf-8")


def gold_outputs(windows: Sequence[DocumentsWindow]) -> Outputs:
    """Logits of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    for window in windows:
        if window.record.aliases is None:
            raise ValueError(f"{window.record.id!r} has no gold answer")
    n = len(windows[0].document) if windows else 0
    made = Outputs(*np.zeros((2, len(windows), n), np.float32))
    for logits, name in zip(made, ("starts", "ends"), strict=True):
        for row, window in zip(logits, windows, strict=True):
            places = window.labels[name]
            row[places[places >= 0]] = _SURE
    return made
