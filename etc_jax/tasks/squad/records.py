"""SQuAD 1.1's official files (Rajpurkar et al. 2016): questions about a paragraph."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from etc_jax.datasets.fields import LIST, STRING, WHOLE, Fields, objects
from etc_jax.datasets.json_objects import has_member, read_members
from etc_jax.datasets.records import BadRecordError, Note, Problems, read_records


class SquadAnswer(NamedTuple):
    """An answer as an annotator marked it.

    Attributes:
      text: its words.
      start: its first character in the context; None if it does not stand where the
        file says.
    """

    text: str
    start: int | None


@dataclasses.dataclass(frozen=True)
class Record:
    """A question about a paragraph.

    Attributes:
      id: of the question.
      title: of the article.
      question: its text.
      context: the paragraph.
      answers: one or more, in the order of the file; None in test files.
    """

    id: str
    title: str
    question: str
    context: str
    answers: tuple[SquadAnswer, ...] | None


def read(
    paths: Sequence[str | os.PathLike], problems: Problems | None = None
) -> Iterator[Record]:
    """The records of files such as `dev-v1.1.json`, an article in memory at a time.

    Args:
      paths: one or more files.
      problems: where what is wrong is counted; None: a bad record is raised.

    Raises:
      BadRecordError: without `problems`, naming the file and the question's number.
      OSError: if a file cannot be read.
    """
    return read_records(paths, parse, problems, _questions)


def parse(value: Any, note: Note) -> Record:
    """A record from its JSON value.

    Args:
      value: a question of the official format, with `context` and `title` of its
        paragraph and article.
      note: called with (kind, message) for an answer that is not where it should be.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name, context = fields.text("id"), fields.text("context")
    return Record(
        id=name,
        title=fields.get("title", STRING, ""),
        question=fields.text("question"),
        context=context,
        answers=_answers(name, fields, context, note),
    )


def _answers(
    name: str, fields: Fields, context: str, note: Note
) -> tuple[SquadAnswer, ...] | None:
    if "answers" not in fields:
        return None
    listed = fields.get("answers", objects)
    if not listed:
        raise BadRecordError(
            "no answer", f"{name!r} has none, as only questions of SQuAD 2.0 may"
        )
    return tuple(_answer(name, answer, context, note) for answer in listed)


def _answer(name: str, fields: Fields, context: str, note: Note) -> SquadAnswer:
    text, start = fields.text("text"), fields.get("answer_start", WHOLE)
    if start >= 0 and context.startswith(text, start):
        return SquadAnswer(text, start)
    there = context[max(start, 0) : max(start, 0) + len(text)]
    note(
        "answer not at its place",
        f"{name!r}: {text!r} should be at character {start}, where {there!r} is",
    )
    return SquadAnswer(text, None)


# --- files ----------------------------------------------------------------------------


def release_values(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """What `parse` takes of each question of an official file; see `DataSet.release`.

    None for another file, such as one of questions that have their context in them.
    """
    return _questions(path) if has_member(path, "data") else None


def _questions(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, what `parse` takes) of each question of a file."""
    number = articles = 0
    for name, article in read_members(path):
        if name != "data":
            continue
        articles += 1
        for question in _of_article(article, f"article {articles}"):
            number += 1
            yield number, question
    if not articles:
        raise BadRecordError(
            "not a JSON array",
            f"{os.fspath(path)}: no 'data' with articles in it; give a file such as "
            "dev-v1.1.json",
        )


def _of_article(article: Any, where: str) -> Iterator[Any]:
    """Each question with title and context, or what is wrong in its place."""
    try:
        fields = Fields(article)
        own = {"title": fields.get("title", STRING, "")}
        paragraphs = fields.get("paragraphs", LIST)
    except BadRecordError as e:
        yield e.at(where)
        return
    for number, value in enumerate(paragraphs, start=1):
        try:
            paragraph = Fields(value)
            own["context"] = paragraph.text("context")
            asked = paragraph.get("qas", LIST)
        except BadRecordError as e:
            yield e.at(f"{where}, paragraph {number}")
            continue
        for question in asked:
            yield {**question, **own} if isinstance(question, dict) else question
