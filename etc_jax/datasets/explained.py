"""An answer with what it rests on, for a reader: as text, as JSON, and for a page."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base.terminal import CONTROL
from etc_jax.datasets.fragments import Mark

_WIDTH = 88
_SHOWN_CANDIDATES = 5
_SHOWN_TEXTS = 5
_AS_SPACES = str.maketrans("\t\n", "  ")
# A longer line is cut at the ends of sentences, so that most of it can be folded.
_LONG_CHARS = 800
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclasses.dataclass(frozen=True)
class Wording:
    """What the parts of an answer are called on a page, and what its colours mean.

    Attributes:
      question: over the question.
      answer: over the answer; "" if candidates or documents say all of it.
      reference: over what the answer should be, where that is shown.
      support: over the list of the passages that an answer rests on; "" for no list.
      candidates: over the candidates, of which `{}` is the number.
      drawing: over the drawing of a document, if it has one.
      legend: at the end of the page; "" for none.
      headed_by_id: whether a record is known by its id and not by the question, which
        is the same for all.
      side_by_side: whether documents, answer and references stand beside each other,
        as texts do that are to be compared.
    """

    question: str = "Question"
    answer: str = "Answer"
    reference: str = "Gold answer"
    support: str = "Resting on"
    candidates: str = "Among {} candidates"
    drawing: str = "As it is laid out"
    legend: str = "Marked: the answer. Tinted: what supports it."
    headed_by_id: bool = False
    side_by_side: bool = False


class Box(NamedTuple):
    """Where a text stands on a sheet, and how large its letters are; in pixels."""

    left: float
    top: float
    width: float
    height: float
    font_size: float


class Sheet(NamedTuple):
    """What boxes stand on; what reaches over its edge is not seen. In pixels."""

    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Passage:
    """A title, a sentence, or the text of a whole document.

    Attributes:
      text: as the record has it.
      probability: that it supports the answer; None if the model was not asked, or did
        not see it.
      score: the same where the model gives no probability: how much more than no answer
        it is to the model, without a scale; None without one.
      is_support: whether it is taken as supporting.
      marks: (first, one past the last) characters of what is to be marked: the answer,
        or where a candidate is mentioned; ascending and apart.
      ranks: which of the candidates each mark is of, from 1; () where it does not
        matter.
      names: of each mark, what it is, shown after it in a colour of that name; () for
        marks that need none.
      doubted: of each mark with a name, whether another reading has not the same; ()
        for none.
      box: where it stands on the document's sheet; None if it is not drawn, as nothing
        blank is.
      is_gold: whether it supports the gold answer; None: that is not known.
    """

    text: str
    probability: float | None = None
    is_support: bool = False
    marks: tuple[tuple[int, int], ...] = ()
    score: float | None = None
    ranks: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()
    doubted: tuple[bool, ...] = ()
    box: Box | None = None
    is_gold: bool | None = None


@dataclasses.dataclass(frozen=True)
class ExplainedDocument:
    """A title and passages, in the record's order.

    Attributes:
      title: blank if it has none.
      passages: sentences of running text, or paragraphs.
      paragraphs: whether they are paragraphs, which may have lines and, with tabs
        between them, cells.
      sheet: on which passages are drawn that have a box; None: nothing is drawn.
    """

    title: Passage
    passages: tuple[Passage, ...]
    paragraphs: bool = False
    sheet: Sheet | None = None

    @classmethod
    def of_text(cls, title: str, text: str) -> ExplainedDocument:
        """A text: each line that is not blank is a paragraph, a long one is several."""
        lines = (line.strip() for line in text.splitlines())
        passages = [Passage(x) for line in lines if line for x in _shorter(line)]
        return cls(Passage(title), tuple(passages), paragraphs=True)

    def marked(self, marks: Sequence[Sequence[Mark]]) -> ExplainedDocument:
        """The same with marks in each passage, in place of those it had."""
        passages = tuple(
            dataclasses.replace(
                passage,
                marks=tuple(mark.span for mark in of_passage),
                ranks=tuple((mark.rank,) for mark in of_passage),
            )
            for passage, of_passage in zip(self.passages, marks, strict=True)
        )
        return dataclasses.replace(self, passages=passages)


def _shorter(line: str) -> Iterator[str]:
    """A line, in pieces of some sentences each if it is long."""
    piece = ""
    for sentence in _SENTENCE_END.split(line) if len(line) > _LONG_CHARS else [line]:
        if piece and len(piece) + len(sentence) > _LONG_CHARS:
            yield piece
            piece = ""
        piece = f"{piece} {sentence}" if piece else sentence
    yield piece


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An answer to choose.

    Attributes:
      text: of it.
      probability: among all of them.
      is_gold: whether it is known to be right.
    """

    text: str
    probability: float
    is_gold: bool = False


def ranked(
    texts: Sequence[str], probabilities: np.ndarray, gold: Collection[str] = ()
) -> tuple[Candidate, ...]:
    """Candidates, the most probable first; of equal ones the first, as in decoding.

    Args:
      texts: of the candidates.
      probabilities: `[c]`, of each.
      gold: those that are right; () if none is known.
    """
    # Stable, so that equal ones keep their order.
    order = np.argsort(-probabilities, kind="stable").tolist()
    return tuple(
        Candidate(texts[i], float(probabilities[i]), texts[i] in gold) for i in order
    )


def any_of(texts: Sequence[str]) -> str:
    """Right answers as one text: the first few, and how many more there are."""
    different = [text for text in dict.fromkeys(texts) if text]
    more = len(different) - _SHOWN_TEXTS
    shown = " / ".join(different[:_SHOWN_TEXTS])
    return f"{shown} / {more} more" if more > 0 else shown


@dataclasses.dataclass(frozen=True)
class Explained:
    """An answer with what it rests on.

    Attributes:
      id: of the record.
      question: its text.
      answer: "" if the model gives none.
      documents: of the record.
      candidates: the best first; () if the task has none.
      score: of the answer, as that of a passage; None without one.
      reference: what the answer should be; None: it is not known, or not shown.
      others: further answers that are as right.
      marks: parts of the answer that a document has too, where marks have their ranks.
      confidence: the probability that the model gives to its answer as a whole; None
        without one.
      prediction: the record's, as the task makes it, where the texts do not say all of
        it; None where they do.
      wording: of a page.
    """

    id: str
    question: str
    answer: str
    documents: tuple[ExplainedDocument, ...]
    candidates: tuple[Candidate, ...] = ()
    score: float | None = None
    reference: str | None = None
    others: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    confidence: float | None = None
    prediction: Any = None
    wording: Wording = Wording()

    def supporting(self) -> Iterator[tuple[ExplainedDocument, int]]:
        """(document, number of the passage) of all that is taken as supporting."""
        for document in self.documents:
            for number, passage in enumerate(document.passages):
                if passage.is_support:
                    yield document, number

    def text(self) -> str:
        """Some lines for a terminal."""
        lines = [_wrapped("question", self.question)] if self.question else []
        lines.append(_wrapped("answer", self.answer or "(none)"))
        if self.reference is not None:
            wanted = (self.reference, *self.others)
            lines += [_wrapped("wanted", text or "(none)") for text in wanted]
        if self.score is not None:
            lines.append(_wrapped("score", score_text(self.score)))
        for candidate in self.candidates[:_SHOWN_CANDIDATES]:
            lines.append(_wrapped(_percent(candidate.probability), candidate.text))
        if more := len(self.candidates) - _SHOWN_CANDIDATES:
            lines += [_wrapped("", f"and {more} more")] if more > 0 else []
        for document, number in self.supporting():
            passage = document.passages[number]
            line = f"{document.title.text}: {passage.text.strip()}"
            lines.append(_wrapped(_number(passage), line))
        return "\n".join([_one_line(self.id), *lines])

    def as_json(self) -> dict[str, Any]:
        """The same for a program: answer, support and candidates, without the texts."""
        support = [
            {
                "title": document.title.text,
                "sentence": number,
                **_as_json(document, document.passages[number]),
            }
            for document, number in self.supporting()
        ]
        fields = {"id": self.id, "question": self.question, "answer": self.answer}
        if self.reference is not None:
            fields["reference"] = self.reference
        if self.others:
            fields["other_references"] = list(self.others)
        if self.score is not None:
            fields["score"] = self.score
        if self.prediction is not None:
            fields["prediction"] = self.prediction
        if self.candidates:
            candidates = [
                {"text": x.text, "probability": x.probability} for x in self.candidates
            ]
            return {**fields, "candidates": candidates}
        return {**fields, "support": support}


def _as_json(document: ExplainedDocument, passage: Passage) -> dict[str, Any]:
    # Lines and cells of a paragraph are for the eye.
    text = passage.text.translate(_AS_SPACES) if document.paragraphs else passage.text
    fields = {"text": text}
    if passage.score is not None:
        return {**fields, "score": passage.score}
    return {**fields, "probability": passage.probability}


def score_text(score: float) -> str:
    """A score as people read it."""
    return f"{score:.2f}"


def _one_line(text: str) -> str:
    """A text in one line, without what moves or colours a terminal."""
    return " ".join(CONTROL.sub(" ", text).split())


def _number(passage: Passage) -> str:
    if passage.score is not None:
        return score_text(passage.score)
    return _percent(passage.probability)


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.0%}"


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        _one_line(text),
        width=_WIDTH,
        initial_indent=f"  {label:>8}  ",
        subsequent_indent=" " * 12,
    )
