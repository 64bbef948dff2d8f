"""From TriviaQA logits to answers, and to metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.data.windows.window import Window
from etc_jax.datasets.decoding import SURE, check_outputs, require_gold
from etc_jax.scoring import triviaqa as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.triviaqa.inputs import DocumentsWindow
from etc_jax.tasks.triviaqa.records import Record

MAX_ANSWER_TOKENS = 30


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


def answers(outputs: Outputs, windows: Sequence[DocumentsWindow]) -> list[str]:
    """The text of the best span of each window.

    Args:
      outputs: logits of a model.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    spans = best_spans(outputs, windows)
    return [answer_text(window, s) for window, s in zip(windows, spans, strict=True)]


def best_spans(
    outputs: Outputs, windows: Sequence[DocumentsWindow]
) -> list[ScoredSpan]:
    """The best span of each window, of `MAX_ANSWER_TOKENS` at most.

    Raises:
      ValueError: see `answers`.
    """
    n = len(windows[0].document) if windows else 0
    check_outputs(outputs._asdict(), windows, {"start": (n,), "end": (n,)})
    return [
        best_span(start, end, window.document)
        for start, end, window in zip(outputs.start, outputs.end, windows, strict=True)
    ]


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
    start, end = (_log_probabilities(x, document >= 0) for x in (start, end))
    scores = span_scores(start, end, document, most=most)
    first, more = np.unravel_index(np.argmax(scores), scores.shape)
    return ScoredSpan(int(first), int(first + more), float(scores[first, more]))


def span_scores(
    start: np.ndarray, end: np.ndarray, document: np.ndarray, *, most: int
) -> np.ndarray:
    """The score of each span within one document, start + end; -inf for no answer.

    Args:
      start: `[n]`, of each token to be the first.
      end: `[n]`, of each token to be the last.
      document: see `best_span`.
      most: tokens of an answer.

    Returns:
      float64 `[n, min(most, n)]`: by the first token, and by how many tokens later the
      last one is.
    """
    n = len(document)
    start, end = np.float64(start), np.float64(end)
    scores = np.full((n, min(most, n)), -np.inf)
    for more in range(scores.shape[1]):
        first, last = document[: n - more], document[more:]
        within = (first == last) & (first >= 0)
        pairs = start[: n - more] + end[more:]
        scores[: n - more, more] = np.where(within, pairs, -np.inf)
    return scores


def _log_probabilities(logits: np.ndarray, is_answer: np.ndarray) -> np.ndarray:
    """float64 `[n]`, of the tokens that may be; -inf for the others."""
    logits = np.where(is_answer, np.float64(logits), -np.inf)
    return logits - np.logaddexp.reduce(logits)


def answer_text(window: DocumentsWindow, span: ScoredSpan) -> str:
    """The words of a span, as the document spells them."""
    number, (start, stop) = window.span_of(span.first, span.last)
    return " ".join(window.record.documents[number].text[start:stop].split())


# --- metrics --------------------------------------------------------------------------


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


def gold_outputs(windows: Sequence[DocumentsWindow]) -> Outputs:
    """Logits of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    n = len(windows[0].document) if windows else 0
    return Outputs(*sure_places(windows, ("starts", "ends"), n))


def sure_places(windows: Sequence[Window], labels: Sequence[str], n: int) -> np.ndarray:
    """Logits `[labels, b, n]` that are sure of every place of some labels.

    Args:
      windows: with labels.
      labels: their names: int32 `[k]`, places and then -1.
      n: tokens.
    """
    sure = np.zeros((len(labels), len(windows), n), np.float32)
    for logits, name in zip(sure, labels, strict=True):
        for row, window in zip(logits, windows, strict=True):
            positions = window.labels[name]
            row[positions[positions >= 0]] = SURE
    return sure


def why_lost(windows: Sequence[DocumentsWindow], answer: str) -> Iterator[str]:
    """Why the windows of a record do not give its gold answer back."""
    [window] = windows
    names = window.record.aliases
    if scoring.normalize(answer) not in map(scoring.normalize, names):
        yield f"{names[0]!r}: {window.unusable or f'tokens say {answer!r}'}"
