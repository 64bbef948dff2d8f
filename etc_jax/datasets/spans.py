"""Answers that are spans of documents: windows, and how logits are read as spans.

A model gives each token a logit to begin, and one to end, the answer; see `best_span`.
`span_inputs` makes windows of questions and documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from etc_jax.data.schema import Placed
from etc_jax.data.windows.window import Window
from etc_jax.datasets.decoding import SURE, check_outputs, require_gold
from etc_jax.datasets.explained import ExplainedDocument, Passage

MAX_ANSWER_TOKENS = 30

# (first, one past the last) character.
Span = tuple[int, int]


class Document(NamedTuple):
    """A text and the name of its file."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class DocumentsWindow(Window):
    """A question with as much of its documents as fits, in any format.

    `labels` are `starts` and `ends`, int32 `[k]`: first and last token of each place of
    the answer, in order, then -1. Tokens are those of the sequence, of structured
    inputs the long ones.

    Attributes:
      document: int32 `[n]`, document of the record that each token is of; -1 for none.
      characters: int32 `[n, 2]`, (first, one past the last) character of each token in
        its document; -1 for none.
    """

    document: np.ndarray
    characters: np.ndarray

    axes: ClassVar = {"starts": Placed(padding=-1), "ends": Placed(padding=-1)}

    def span_of(self, first: int, last: int) -> tuple[int, Span]:
        """(document, characters) of tokens of one document, without space around."""
        number = int(self.document[first])
        start, stop = int(self.characters[first, 0]), int(self.characters[last, 1])
        answer = self.record.documents[number].text[start:stop]
        start += len(answer) - len(answer.lstrip())
        return number, (start, start + len(answer.strip()))


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


def check_logits(outputs: Outputs, windows: Sequence[DocumentsWindow]) -> None:
    """Checks logits `[b, n]` against their windows.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    n = len(windows[0].document) if windows else 0
    check_outputs(outputs._asdict(), windows, {"start": (n,), "end": (n,)})


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
    # One diagonal at a time: all pairs of 4,096 tokens would be 128 MiB.
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


def gold_outputs_of(
    official_gold: Callable[[Any], Any],
) -> Callable[[Sequence[DocumentsWindow]], Outputs]:
    """`FeatureConverter.gold_outputs`: windows to logits `[b, n]` that are sure of
    every label.

    Args:
      official_gold: `DataSet.gold`; a window of a record without one is a ValueError.
    """

    def gold_outputs(windows: Sequence[DocumentsWindow]) -> Outputs:
        require_gold(windows, official_gold)
        n = len(windows[0].document) if windows else 0
        return Outputs(*sure_logits(windows, ("starts", "ends"), n))

    return gold_outputs


def sure_logits(windows: Sequence[Window], labels: Sequence[str], n: int) -> np.ndarray:
    """Logits `[labels, b, n]` that are sure of every position of some labels.

    Args:
      windows: with labels.
      labels: their names: int32 `[k]`, positions and then -1.
      n: tokens.
    """
    sure = np.zeros((len(labels), len(windows), n), np.float32)
    for logits, name in zip(sure, labels, strict=True):
        for row, window in zip(logits, windows, strict=True):
            positions = window.labels[name]
            row[positions[positions >= 0]] = SURE
    return sure


def marked_document(
    document: Document, span: Span, probability: float
) -> ExplainedDocument:
    """A document with the answer marked in its lines.

    Args:
      document: the text with its name.
      span: characters of the answer; (0, 0) for none.
      probability: of the answer.
    """
    lines = tuple(_lines(document.text, span, probability))
    return ExplainedDocument(Passage(document.name), lines, paragraphs=True)


def _lines(text: str, span: Span, probability: float) -> Iterator[Passage]:
    """The lines of a text; those with a part of the answer have it marked."""
    at = 0
    for line in text.splitlines(keepends=True):
        mark = max(span[0] - at, 0), min(span[1] - at, len(line.rstrip()))
        at += len(line)
        if mark[0] < mark[1]:
            yield Passage(line.rstrip(), probability, True, (mark,))
        elif line.strip():
            yield Passage(line.rstrip())
