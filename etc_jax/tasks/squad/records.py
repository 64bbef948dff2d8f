"""Questions about a paragraph, with the places of their answers.

Official files of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), or one's own CSV, TSV
and JSON lines by the names of their columns.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from etc_jax.datasets.fields import (
    FLAG,
    LIST,
    STRING,
    WHOLE,
    Fields,
    anything,
    list_of,
    objects,
    text as non_blank,
    wrong_type,
)
from etc_jax.datasets.json_objects import has_member, read_members
from etc_jax.datasets.records import BadRecordError, Note, reader
from etc_jax.datasets.spans import Document
from etc_jax.datasets.tables import (
    Row,
    TableOptions,
    digest_id,
    is_table,
    read_rows,
    record_id,
    row_of,
)

_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclasses.dataclass(frozen=True)
class SquadOptions(TableOptions):
    """Questions by the names of their columns; official files have their own.

    Attributes:
      question_column: with the question.
      context_column: with the text that has the answer.
      answer_column: with the answer, blank where there is none; of JSON lines also a
        list of answers.
      start_column: with the first character of the answer in the context, from 0; of
        a list of answers a list. Without it an answer that occurs once is found.
    """

    question_column: str = "question"
    context_column: str = "context"
    answer_column: str = "answer"
    start_column: str = "answer_start"

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: inputs are the same whatever the columns of a file are called."""
        columns = {field.name for field in dataclasses.fields(SquadOptions)}
        fields = super().shaping(sizes)
        return {name: x for name, x in fields.items() if name not in columns}


OPTIONS = SquadOptions()


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
      title: of the article; blank if it has none.
      question: its text.
      context: the paragraph.
      answers: in the order of the file; () if the paragraph does not have any, None in
        test files.
    """

    id: str
    title: str
    question: str
    context: str
    answers: tuple[SquadAnswer, ...] | None

    @property
    def documents(self) -> tuple[Document, ...]:
        """The paragraph, as data sets have it that have several."""
        return (Document(self.title, self.context),)


def parse(value: Any, note: Note, *, options: SquadOptions = OPTIONS) -> Record:
    """A record from a row, or from the JSON value of a question.

    Args:
      value: a row of a file with named columns, or a question of the official format,
        with `context` and `title` of its paragraph and article.
      note: called with (kind, message) for an answer that is not where it should be.
      options: names of the columns of a row.

    Raises:
      BadRecordError: if it cannot be used.
    """
    if isinstance(value, Row):
        return _of_row(row_of(value, note), note, options)
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
    impossible = fields.get("is_impossible", FLAG, False)
    if not listed and not impossible:
        raise BadRecordError(
            "no answer",
            f"{name!r} has none, as only questions of SQuAD 2.0 may whose "
            "is_impossible is true",
        )
    if listed and impossible:
        raise BadRecordError(
            "impossible with answers", f"{name!r} has {len(listed)} answers"
        )
    return tuple(
        _answer(
            name,
            answer.text("text"),
            answer.get("answer_start", WHOLE),
            context,
            note,
        )
        for answer in listed
    )


def _answer(
    name: str, text: str, start: int | None, context: str, note: Note
) -> SquadAnswer:
    """An answer that says where it stands, or that stands in one place alone."""
    if start is None:
        if (count := context.count(text)) == 1:
            return SquadAnswer(text, context.index(text))
        note(
            "answer without its place",
            f"{name!r}: {text!r} is {count} times in the context; expected once, or a "
            "column with its first character",
        )
        return SquadAnswer(text, None)
    if start >= 0 and context.startswith(text, start):
        return SquadAnswer(text, start)
    actual = context[max(start, 0) : max(start, 0) + len(text)]
    note(
        "answer not at its place",
        f"{name!r}: {text!r} should be at character {start}, where {actual!r} is",
    )
    return SquadAnswer(text, None)


# --- rows -----------------------------------------------------------------------------


def _of_row(row: Row, note: Note, options: SquadOptions) -> Record:
    fields = Fields(row.values)
    question = fields.text(options.question_column)
    context = fields.text(options.context_column)
    name = record_id(fields, row.name or digest_id([question, context]), options)
    answers = None
    if options.answer_column in fields:
        answers = tuple(
            _answer(name, text, start, context, note)
            for text, start in _marked(fields, options)
        )
    elif "answers" in fields:
        # As official files have them, or {"text": [...], "answer_start": [...]}.
        value = fields.get("answers", anything)
        if isinstance(value, dict):
            columns = SquadOptions(answer_column="text", start_column="answer_start")
            inner = Fields(value, "answers")
            answers = tuple(
                _answer(name, text, start, context, note)
                for text, start in _marked(inner, columns)
            )
        else:
            answers = _answers(name, fields, context, note)
    title = fields.get("title", STRING, "")
    return Record(name, title, question, context, answers)


def _marked(fields: Fields, options: SquadOptions) -> list[tuple[str, int | None]]:
    """(text, first character if it is said) of each answer of a row."""
    texts = fields.get(options.answer_column, anything)
    starts = fields.get(options.start_column, anything, None)
    if texts is None or (isinstance(texts, str) and not texts.strip()):
        return []
    if isinstance(texts, str):
        texts, starts = [texts], [starts]
    texts = list_of(non_blank)(texts, options.answer_column)
    if starts is None:
        starts = [None] * len(texts)
    if not isinstance(starts, list) or len(starts) != len(texts):
        expected = f"a list of {len(texts)}, one for each answer"
        raise wrong_type(starts, options.start_column, expected)
    return [
        (text, _start(start, options.start_column))
        for text, start in zip(texts, starts, strict=True)
    ]


def _start(value: Any, column: str) -> int | None:
    """The first character; None where nothing is said."""
    if isinstance(value, str):
        if not value.strip():
            return None
        if _NUMBER.fullmatch(value.strip()):
            return int(value)
    elif value is None or type(value) is int:
        return value
    raise wrong_type(value, column, "a whole number")


# --- files ----------------------------------------------------------------------------


def _values(
    path: str | os.PathLike, options: SquadOptions
) -> Iterator[tuple[int, Any]]:
    return read_rows(path, options) if is_table(path) else questions(path)


# The records of files, an article in memory at a time: CSV, TSV and JSON lines have
# named columns, all others the official form, as `dev-v1.1.json`.
read = reader(parse, _values, OPTIONS)


def release(
    path: str | os.PathLike, *, options: SquadOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """What `parse` takes of each question of a file; see `DataSet.release`.

    None for a file of another form, such as a list of questions that have their context
    in them.
    """
    if is_table(path) or has_member(path, "data"):
        return _values(path, options)
    return None


def questions(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, what `parse` takes) of each question of an official file.

    Raises:
      BadRecordError: where it is damaged, or has another form. Questions before that
        place have come out.
      OSError: if it cannot be read.
    """
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
        of_article = {"title": fields.get("title", STRING, "")}
        paragraphs = fields.get("paragraphs", LIST)
    except BadRecordError as e:
        yield e.at(where)
        return
    for number, value in enumerate(paragraphs, start=1):
        try:
            paragraph = Fields(value)
            of_article["context"] = paragraph.text("context")
            asked = paragraph.get("qas", LIST)
        except BadRecordError as e:
            yield e.at(f"{where}, paragraph {number}")
            continue
        for question in asked:
            yield {**question, **of_article} if isinstance(question, dict) else question
