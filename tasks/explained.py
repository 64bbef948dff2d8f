"""An answer with what it rests on, for a reader: as text, as JSON, and for a page."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

_WIDTH = 88
_SHOWN_CANDIDATES = 5


@dataclasses.dataclass(frozen=True)
class Passage:
    """A title, a sentence, or the text of a whole document.

    Attributes:
      text: as the record has it.
      probability: that it supports the answer; None if the model was not asked, or did
        not see it.
      is_support: whether it is taken as supporting.
      marks: (first, one past the last) characters of what is to be marked: the answer,
        or where the chosen candidate is mentioned.
    """

    text: str
    probability: float | None = None
    is_support: bool = False
    marks: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Document:
    """A title and passages, in the record's order."""

    title: Passage
    passages: tuple[Passage, ...]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An answer to choose and its probability among all of them."""

    text: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Explained:
    """An answer with what it rests on.

    Attributes:
      id: of the record.
      question: its text.
      answer: "" if the model gives none.
      documents: of the record.
      candidates: the likeliest first; () if the task has none.
    """

    id: str
    question: str
    answer: str
    documents: tuple[Document, ...]
    candidates: tuple[Candidate, ...] = ()

    def supporting(self) -> Iterator[tuple[Document, int]]:
        """(document, number of the passage) of all that is taken as supporting."""
        for document in self.documents:
            for number, passage in enumerate(document.passages):
                if passage.is_support:
                    yield document, number

    def text(self) -> str:
        """Some lines for a terminal."""
        lines = [_wrapped("question", self.question)]
        lines.append(_wrapped("answer", self.answer or "(none)"))
        for candidate in self.candidates[:_SHOWN_CANDIDATES]:
            lines.append(_wrapped(_percent(candidate.probability), candidate.text))
        if more := len(self.candidates) - _SHOWN_CANDIDATES:
            lines += [_wrapped("", f"and {more} more")] if more > 0 else []
        for document, number in self.supporting():
            passage = document.passages[number]
            told = f"{document.title.text}: {passage.text.strip()}"
            lines.append(_wrapped(_percent(passage.probability), told))
        return "\n".join([printable(self.id), *lines])

    def as_json(self) -> dict[str, Any]:
        """The same for a program: answer, support and candidates, without the texts."""
        support = [
            {
                "title": document.title.text,
                "sentence": number,
                "text": document.passages[number].text,
                "probability": document.passages[number].probability,
            }
            for document, number in self.supporting()
        ]
        told = {"id": self.id, "question": self.question, "answer": self.answer}
        if self.candidates:
            candidates = [dataclasses.asdict(c) for c in self.candidates]
            return {**told, "candidates": candidates}
        return {**told, "support": support}


def printable(text: str) -> str:
    """A text without what moves or colours a terminal, which records may hold."""
    shown = (c if c.isprintable() or c == " " else " " for c in text)
    return " ".join("".join(shown).split())


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.0%}"


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        printable(text),
        width=_WIDTH,
        initial_indent=f"  {label:>8}  ",
        subsequent_indent=" " * 12,
    )
