"""HotpotQA's official files: questions over paragraphs, with supporting facts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tasks.records import BadRecordError, Fields, Note, Problems, read_records, strings


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


def read(
    paths: Sequence[str | os.PathLike], problems: Problems | None = None
) -> Iterator[Record]:
    """The records of official files such as `hotpot_train_v1.1.json`.

    Supporting facts that point nowhere, which official files have, are counted; they
    stay in the record, as the official metric counts them too.

    Args:
      paths: one or more files.
      problems: where what is wrong is counted; None: a bad record is raised.

    Raises:
      BadRecordError: without `problems`, naming the file and the record.
      OSError: if a file cannot be read.
    """
    return read_records(paths, parse, problems)


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
    paragraphs = tuple(
        _paragraph(x, i) for i, x in enumerate(fields.get("context", list))
    )
    if not paragraphs:
        raise BadRecordError("no context", f"{name!r} has no paragraph")
    record = Record(
        id=name,
        question=fields.text("question"),
        paragraphs=paragraphs,
        answer=fields.text("answer") if "answer" in fields else None,
        support=_support(fields) if "supporting_facts" in fields else None,
        type=fields.text("type", may_be_blank=True) if "type" in fields else "",
        level=fields.text("level", may_be_blank=True) if "level" in fields else "",
    )
    _note_oddities(record, note)
    return record


def _paragraph(value: Any, index: int) -> Paragraph:
    what = f"context[{index}]"
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        raise BadRecordError(
            "wrong type", f"{what} is {str(value)[:60]}, expected [title, [sentences]]"
        )
    return Paragraph(value[0], strings(value[1], what))


def _support(fields: Fields) -> tuple[tuple[str, int], ...]:
    facts = []
    for fact in fields.get("supporting_facts", list):
        match fact:
            case [str(title), int(index)] if not isinstance(index, bool):
                facts.append((title, index))
            case _:
                raise BadRecordError(
                    "wrong type",
                    f"{str(fact)[:60]} in 'supporting_facts', expected [title, index]",
                )
    return tuple(facts)


def _note_oddities(record: Record, note: Note) -> None:
    known = existing_support(record)
    for fact in record.support or ():
        if fact not in known:
            note("supporting fact that points nowhere", f"{record.id!r}, {fact}")
    for paragraph in record.paragraphs:
        if not any(s.strip() for s in paragraph.sentences):
            note("empty paragraph", f"{record.id!r}, {paragraph.title!r}")
    titles = [p.title for p in record.paragraphs]
    if twice := sorted({t for t in titles if titles.count(t) > 1}):
        note("title twice in a context", f"{record.id!r}, {twice}")


def existing_support(record: Record) -> set[tuple[str, int]]:
    """The supporting facts of which the context has the sentence."""
    there = {(p.title, i) for p in record.paragraphs for i in range(len(p.sentences))}
    return set(record.support or ()) & there
