"""Questions about a text with options to choose from, in QuALITY's form and in tables.

A line of QuALITY's release is an article with its questions; each question is a record.
In a table, or in JSON lines with a question each, columns have names.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from etc_jax.datasets.fields import Fields, anything, list_of, text, wrong_type
from etc_jax.datasets.records import BadRecordError, Note, reader
from etc_jax.datasets.tables import (
    Row,
    TableOptions,
    is_delimited,
    is_json_value,
    read_json_rows,
    read_rows,
    row_of,
)

QUESTIONS = "questions"
_LEAST = 2
_NAME = "question_unique_id"
_YES, _NO = ("1", "true"), ("0", "false", "")


@dataclasses.dataclass(frozen=True)
class ChoiceColumns(TableOptions):
    """Questions, options and articles by the names of their columns.

    Attributes:
      question_column: with the question.
      article_column: with the text that it is about.
      options_column: of JSON lines, with a list of the options.
      option_columns: each with an option, where they are no list; a blank one is no
        option.
      label_column: of the right option.
      label_is: what is there: the number from 1, the index from 0, the letter from A,
        or the text of the option.
      hard_column: whether a question is of the hard subset: 1 or 0, true or false.
    """

    question_column: str = "question"
    article_column: str = "article"
    options_column: str = "options"
    option_columns: tuple[str, ...] = ()
    label_column: str = "gold_label"
    label_is: Literal["number", "index", "letter", "text"] = "number"
    hard_column: str = "difficult"

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: inputs are the same whatever the columns of a file are called."""
        del sizes
        return {}


COLUMNS = ChoiceColumns()


@dataclasses.dataclass(frozen=True)
class Record:
    """A question.

    Attributes:
      id: of the question.
      question: its text.
      options: two or more, none blank.
      article: what it is about.
      title: of the article; may be blank.
      label: which option is right, from 0; None without one.
      is_hard: whether it is of the hard subset.
    """

    id: str
    question: str
    options: tuple[str, ...]
    article: str
    title: str
    label: int | None
    is_hard: bool

    @property
    def candidates(self) -> tuple[int, ...]:
        """What is chosen from: the numbers of the options, from 1."""
        return tuple(range(1, len(self.options) + 1))


def release(
    path: str, *, options: ChoiceColumns = COLUMNS
) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`: files whose ending tells that they have columns."""
    return None if is_json_value(path) else _questions(path, options)


def _questions(
    path: str | os.PathLike, options: ChoiceColumns
) -> Iterator[tuple[int, Any]]:
    """(number from 1, row) of each question of a file."""
    number = 0
    for _, row in _rows(path, options):
        for question in _of_row(row):
            number += 1
            yield number, question


def _rows(path: str | os.PathLike, options: ChoiceColumns) -> Iterator[tuple[int, Any]]:
    """The rows of a CSV or TSV; files of other endings have JSON lines.

    Those of QuALITY's release end in .train, .dev and .test.
    """
    if options.delimiter or is_delimited(path):
        return read_rows(path, options)
    return read_json_rows(path)


def _of_row(row: Row | BadRecordError) -> Iterator[Any]:
    """The questions of an article with what all share, or the row itself."""
    if isinstance(row, BadRecordError) or not isinstance(row.values, dict):
        yield row
        return
    if QUESTIONS not in row.values:
        yield row
        return
    shared = {name: x for name, x in row.values.items() if name != QUESTIONS}
    asked = row.values[QUESTIONS]
    for number, value in enumerate(asked if isinstance(asked, list) else [asked], 1):
        values = {**shared, **value} if isinstance(value, dict) else value
        yield Row(values, f"{row.name}:{number}")


def parse(value: Any, note: Note, *, options: ChoiceColumns = COLUMNS) -> Record:
    """A record from a row, or from a JSON object with the same names.

    Args:
      value: of one question; one to be answered needs no label.
      note: see `tables.row_of`.
      options: see `read`.

    Raises:
      BadRecordError: if it cannot be used.
    """
    row = row_of(value, note)
    fields = Fields(row.values)
    if QUESTIONS in fields:
        raise BadRecordError(
            "several questions",
            f"an article with {QUESTIONS!r}; give it in a file named .jsonl, or one "
            "question by itself",
        )
    question = fields.text(options.question_column)
    name = _id(fields, row.name or question, options.id_column)
    choices = _options(fields, options)
    return Record(
        id=name,
        question=question,
        options=choices,
        article=fields.text(options.article_column),
        title=fields.get("title", _optional_text, ""),
        label=_label(fields, choices, options),
        is_hard=_flag(fields.get(options.hard_column, anything, 0), options),
    )


# The questions of CSV, TSV and JSON-lines files, one at a time.
read = reader(parse, _questions, COLUMNS)


def _id(fields: Fields, otherwise: str, column: str) -> str:
    column = column or (_NAME if _NAME in fields else "id")
    name = fields.get(column, anything, otherwise)
    return str(name) if type(name) is int else text(name, column)


def _optional_text(value: Any, what: str) -> str:
    if not isinstance(value, str | None):
        raise wrong_type(value, what, "a string")
    return value or ""


def _options(fields: Fields, options: ChoiceColumns) -> tuple[str, ...]:
    if options.option_columns:
        cells = (fields.get(x, _optional_text) for x in options.option_columns)
        choices = tuple(cell for cell in cells if cell.strip())
    else:
        choices = fields.get(options.options_column, list_of(text))
    if len(choices) < _LEAST:
        raise BadRecordError(
            "too few options", f"{len(choices)}, expected {_LEAST} or more"
        )
    return choices


def _label(
    fields: Fields, choices: Sequence[str], options: ChoiceColumns
) -> int | None:
    column, kind = options.label_column, options.label_is
    value = fields.get(column, anything, None)
    if value is None or value == "":
        return None
    if kind == "text":
        if value not in choices:
            raise wrong_type(value, column, f"one of the {len(choices)} options")
        return choices.index(value)
    first, last = (1, len(choices)) if kind == "number" else (0, len(choices) - 1)
    number = value
    if isinstance(value, str):
        name = value.strip()
        if kind == "letter":
            is_letter = len(name) == 1 and name.isascii() and name.isalpha()
            number = ord(name.upper()) - ord("A") if is_letter else None
        else:
            number = int(name) if name.isascii() and name.isdecimal() else None
    if type(number) is not int or not first <= number <= last:
        ends = (
            f"a letter from A to {chr(ord('A') + last)}"
            if kind == "letter"
            else f"a whole number from {first} to {last}"
        )
        raise wrong_type(value, column, f"{ends}, the {kind} of an option")
    return number - first


def _flag(value: Any, options: ChoiceColumns) -> bool:
    flag = str(value).strip().lower()
    if value is not None and flag not in (*_YES, *_NO):
        raise wrong_type(value, options.hard_column, "1 or 0, true or false")
    return flag in _YES
