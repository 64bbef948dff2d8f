"""HotpotQA's official files: questions over paragraphs, with supporting facts."""

from __future__ import annotations

import dataclasses
from typing import Any

from etc_jax.datasets.fields import STRING, WHOLE, Fields, list_of, pair, text
from etc_jax.datasets.records import BadRecordError, Note, reader

_CONTEXT = list_of(pair(STRING, list_of(STRING)))
_FACTS = list_of(pair(STRING, WHOLE))


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A title and sentences, which keep the white space between them."""

    title: str
    sentences: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Record:
    """A question.

    Attributes:
      id: name of the record.
      question: its text.
      paragraphs: the context, in order.
      answer: None in test files.
      support: (title, sentence) pairs as the file has them, some of which may point
        past a paragraph's end; None in test files.
      type: "bridge" or "comparison".
      level: "easy", "medium" or "hard".
    """

    id: str
    question: str
    paragraphs: tuple[Paragraph, ...]
    answer: str | None
    support: tuple[tuple[str, int], ...] | None
    type: str
    level: str


def parse(value: Any, note: Note) -> Record:
    """A record from its JSON value.

    Args:
      value: the object of the official format.
      note: called with (kind, message) for what is left out.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name = fields.text("_id")
    paragraphs = tuple(Paragraph(*x) for x in fields.get("context", _CONTEXT))
    if not paragraphs:
        raise BadRecordError("no context", f"{name!r} has no paragraph")
    record = Record(
        id=name,
        question=fields.text("question"),
        paragraphs=paragraphs,
        answer=fields.get("answer", text, None),
        support=fields.get("supporting_facts", _FACTS, None),
        type=fields.get("type", STRING, ""),
        level=fields.get("level", STRING, ""),
    )
    _note_oddities(record, note)
    return record


# The records of official files such as `hotpot_train_v1.1.json`. Supporting facts that
# point nowhere are counted; they stay in the record, as the official metric counts
# them too.
read = reader(parse)


def _note_oddities(record: Record, note: Note) -> None:
    existing = existing_support(record)
    for fact in record.support or ():
        if fact not in existing:
            note("supporting fact that points nowhere", f"{record.id!r}, {fact}")
    for paragraph in record.paragraphs:
        if not any(s.strip() for s in paragraph.sentences):
            note("empty paragraph", f"{record.id!r}, {paragraph.title!r}")
    titles = [p.title for p in record.paragraphs]
    if twice := sorted({t for t in titles if titles.count(t) > 1}):
        note("title twice in a context", f"{record.id!r}, {twice}")


def existing_support(record: Record) -> set[tuple[str, int]]:
    """The supporting facts of which the context has the sentence."""
    sentences = {
        (p.title, i) for p in record.paragraphs for i in range(len(p.sentences))
    }
    return set(record.support or ()) & sentences
