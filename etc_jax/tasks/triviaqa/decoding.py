"""From TriviaQA logits to answers, to metrics, and where they stand for a reader."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording, any_of
from etc_jax.datasets.spans import (
    DocumentsWindow,
    Outputs,
    ScoredSpan,
    best_span,
    check_logits,
    marked_document,
)
from etc_jax.scoring import triviaqa as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.triviaqa.records import Record

WORDING = Wording(
    support="Found in",
    legend="Marked: the answer, where the model found it. The number is the "
    "probability of just these words among all in the input.",
)


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
    """The best span of each window, of `spans.MAX_ANSWER_TOKENS` at most.

    Raises:
      ValueError: see `answers`.
    """
    check_logits(outputs, windows)
    return [
        best_span(start, end, window.document)
        for start, end, window in zip(outputs.start, outputs.end, windows, strict=True)
    ]


def answer_text(window: DocumentsWindow, span: ScoredSpan) -> str:
    """The words of a span, as the document spells them."""
    number, (start, stop) = window.span_of(span.first, span.last)
    return " ".join(window.record.documents[number].text[start:stop].split())


# --- for a reader ---------------------------------------------------------------------


def explain(
    outputs: Outputs, windows: Sequence[DocumentsWindow], setting: None = None
) -> list[Explained]:
    """For each window the answer, and the documents with the place it is from.

    Raises:
      ValueError: see `answers`.
    """
    del setting
    return [
        Explained(
            window.record.id,
            window.record.question,
            answer_text(window, span),
            tuple(_documents(window, span)),
            reference=None if names is None else any_of(names),
            confidence=math.exp(span.score),
            wording=WORDING,
        )
        for window, span in zip(windows, best_spans(outputs, windows), strict=True)
        for names in [window.record.aliases]
    ]


def _documents(
    window: DocumentsWindow, span: ScoredSpan
) -> Iterator[ExplainedDocument]:
    chosen, characters = window.span_of(span.first, span.last)
    for number, document in enumerate(window.record.documents):
        marked = characters if number == chosen else (0, 0)
        yield marked_document(document, marked, math.exp(span.score))


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


def why_lost(windows: Sequence[DocumentsWindow], answer: str) -> Iterator[str]:
    """Why the windows of a record do not give its gold answer back."""
    [window] = windows
    names = window.record.aliases
    if scoring.normalize(answer) not in map(scoring.normalize, names):
        yield f"{names[0]!r}: {window.unusable or f'tokens say {answer!r}'}"
