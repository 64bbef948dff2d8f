"""Files in CoNLL's columns: a word a line, a blank line between sentences.

    -DOCSTART- -X- O O          a document begins

    EU NNP B-NP B-ORG
    rejects VBZ B-VP O

Columns are apart by tabs, so that a cell can hold a space, or by any white space.
CoNLL-U's comments (`# sent_id = 3`), `# newdoc`, `# global.columns` and lines of
several words (`3-4`) are known too. What comes before any beginning of a document is a
record a sentence.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from etc_jax.data.input_files import (
    BadRecordError,
    decoded,
    lines,
    max_record_bytes,
    open_input,
    too_large,
)

_DOCUMENT = "-DOCSTART-"
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_NAMES = re.compile(r"#\s*global\.columns\s*=(.*)")
# A word may be "#": what is a comment says something of itself.
_COMMENT = re.compile(r"#\s*(newdoc\b|newpar\b|[\w.]+\s*=\s).*", re.DOTALL)
# Several words of one token, and words that are not written, of CoNLL-U.
_NO_WORD = re.compile(r"\d+[-.]\d+")
_BLANKS = re.compile(r"[ \t]+")
_LINE_BYTES = 64


class Line(NamedTuple):
    """A line of a file.

    Attributes:
      number: from 1.
      text: with its end; what is no UTF-8 is replaced.
      cells: of the columns; () for a line that is no word.
      begins: a document, with this line.
      fault: why it cannot be read; None if it can.
    """

    number: int
    text: str
    cells: tuple[str, ...] = ()
    begins: bool = False
    fault: BadRecordError | None = None


class Columns(NamedTuple):
    """The rows of a record.

    Attributes:
      name: the file and the record's number: its id.
      names: of the columns; () where the file does not say.
      sentences: of words, each with one or more.
    """

    name: str
    names: tuple[str, ...]
    sentences: tuple[tuple[Line, ...], ...]


def read_columns(
    path: str | os.PathLike, by_document: bool
) -> Iterator[tuple[int, Columns | BadRecordError]]:
    """(number from 1, rows) of the records of a file, one at a time.

    Args:
      path: of the file, gzipped if named `.gz`.
      by_document: a document is a record, where the file says where one begins;
        otherwise a sentence is.

    Raises:
      BadRecordError: where a compressed file is damaged. Records before that place have
        come out.
      OSError: if it cannot be read.
    """
    name, number = os.fspath(path), 0
    try:
        for number, (names, part) in enumerate(_parts(name, by_document), start=1):
            yield number, _record(f"{pathlib.Path(name).name}:{number}", names, part)
    except BadRecordError as e:
        raise e.at(f"{name}, after record {number}") from e


def read_lines(path: str | os.PathLike) -> Iterator[Line]:
    """The lines of a file, told apart.

    Raises:
      BadRecordError, OSError: as for `read_columns`.
    """
    with open_input(path) as file:
        for number, raw in lines(file):
            if isinstance(raw, BadRecordError):
                yield Line(number, "", fault=raw)
                continue
            fault = None
            try:
                text = decoded(raw, number)
            except BadRecordError as e:
                text, fault = raw.decode("utf-8", "replace"), e
            if text.startswith(_DOCUMENT) or _NEW_DOCUMENT.match(text):
                yield Line(number, text, begins=True)
            elif not text.strip() or _COMMENT.fullmatch(text):
                yield Line(number, text)
            else:
                cells = _cells(text)
                is_word = not _NO_WORD.fullmatch(cells[0])
                yield Line(number, text, cells if is_word else (), fault=fault)


def _cells(text: str) -> tuple[str, ...]:
    # Not `split()`: a word may be a space that is not ASCII.
    if "\t" in text:
        return tuple(text.rstrip("\r\n").split("\t"))
    return tuple(_BLANKS.split(text.strip(" \r\n")))


def is_pause(line: Line) -> bool:
    """Whether a sentence ends before a line."""
    return line.begins or not line.text.strip()


class _Part:
    """Sentences of a record while they are read."""

    def __init__(self):
        self.sentences: list[list[Line]] = []
        self.size, self.is_open = 0, False

    def add(self, line: Line) -> None:
        if not self.is_open:
            self.sentences.append([])
        self.is_open = True
        # Of a record that is too large no more is kept.
        self.size += max(len(line.text), _LINE_BYTES)
        if self.size <= max_record_bytes():
            self.sentences[-1].append(line)


def _parts(path: str, by_document: bool) -> Iterator[tuple[tuple[str, ...], _Part]]:
    """(names of columns, sentences) of each record."""
    names, part, in_document = (), _Part(), False
    for line in read_lines(path):
        if match := _NAMES.match(line.text):
            names = tuple(match[1].split())
        if line.begins and part.sentences:
            yield names, part
            part = _Part()
        in_document |= line.begins
        if is_pause(line):
            part.is_open = False
            if part.sentences and not (by_document and in_document):
                yield names, part
                part = _Part()
        elif line.cells or line.fault:
            part.add(line)
    if part.sentences:
        yield names, part


def _record(name: str, names: tuple[str, ...], part: _Part) -> Columns | BadRecordError:
    if part.size > max_record_bytes():
        return too_large("record too large", name, part.size)
    for line in (line for sentence in part.sentences for line in sentence):
        if line.fault is not None:
            return line.fault
    return Columns(name, names, tuple(map(tuple, part.sentences)))


def column_of(column: str, names: tuple[str, ...], row: Line, what: str) -> int:
    """The place of a column in a row, from 0.

    Args:
      column: its number from 1, from -1 for the last; or its name.
      names: of the columns.
      row: of the file.
      what: the column has, such as "words".

    Raises:
      BadRecordError: if there is none.
    """
    if column in names:
        index = names.index(column)
    elif column.removeprefix("-").isdecimal() and int(column):
        number = int(column)
        index = number - 1 if number > 0 else len(row.cells) + number
    else:
        raise BadRecordError(
            "no such column",
            f"line {row.number}: the column of {what} is {column!r}; expected its "
            "number from 1, -1 for the last, or a name that a line # global.columns "
            f"gives ({', '.join(names) or 'there is none'})",
        )
    if not 0 <= index < len(row.cells):
        raise BadRecordError(
            "too few columns",
            f"line {row.number}: {len(row.cells)} in {row.text.strip()[:60]!r}, "
            f"expected one with {what}: {column}",
        )
    return index
