"""From TriviaQA logits to answers, and to metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.datasets.spans import (
    DocumentsWindow,
    Outputs,
    ScoredSpan,
    best_span,
    check_logits,
)
from etc_jax.scoring import triviaqa as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.triviaqa.records import Record


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
