"""An answer to a question of TriviaQA where it stands in the documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from etc_jax.datasets.explained import (
    Explained,
    ExplainedDocument,
    Wording,
    any_of,
)
from etc_jax.datasets.spans import (
    DocumentsWindow,
    Outputs,
    ScoredSpan,
    marked_document,
)
from etc_jax.tasks.triviaqa.decoding import answer_text, best_spans

WORDING = Wording(
    support="Found in",
    legend="Marked: the answer, where the model found it. The number is the "
    "probability of just these words among all in the input.",
)


def explain(
    outputs: Outputs, windows: Sequence[DocumentsWindow], setting: None = None
) -> list[Explained]:
    """For each window the answer, and the documents with the place it is from.

    Raises:
      ValueError: see `decoding.answers`.
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
