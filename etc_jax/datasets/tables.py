"""Files of one's own whose columns have names: CSV, TSV and JSON lines.

A row is {column: value}. The first line of a CSV or TSV names the columns, and its
values are texts; JSON lines have an object a line. What is damaged costs one row: the
rows after it are read.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, NamedTuple

from etc_jax.data.input_files import (
    BadRecordError,
    lines,
    max_record_bytes,
    open_input,
    too_large,
)
from etc_jax.datasets.fields import Fields, anything, wrong_type
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.options import InputOptions

_LINES = (".jsonl", ".jsonl.gz")
_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_NAMED = {"tab": "\t"}
_QUOTE = '"'
_MOST_SHOWN = 20
_ID_DIGITS = 16


class Row(NamedTuple):
    """A row of a file.

    Attributes:
      values: of its columns: of JSON lines any JSON value, which should be an object.
      name: the file and the row's number: an id for rows without one.
    """

    values: Any
    name: str


@dataclasses.dataclass(frozen=True)
class TableOptions(InputOptions):
    """How files with named columns are read.

    Attributes:
      id_column: that names records; blank: "id", or file and row where there is none.
      delimiter: between columns, one character or "tab"; blank: by the file's ending,
        .csv or .tsv. JSON lines have none.
      quotes: a field may stand in double quotes and then have delimiters and lines in
        it, and two quotes for one.
    """

    given_to: ClassVar[tuple[str, ...]] = ("read", "parse", "release")

    id_column: str = ""
    delimiter: str = ""
    quotes: bool = True

    def __post_init__(self):
        found = _NAMED.get(self.delimiter, self.delimiter)
        if len(found) > 1 or found in (_QUOTE, "\n", "\r", "\0"):
            raise ValueError(
                f"delimiter is {self.delimiter!r}; expected one character that is no "
                'quote and ends no line, or "tab"'
            )


def is_json_value(path: str | os.PathLike) -> bool:
    """Whether the ending of a file is that of one JSON value, which has no rows."""
    return os.fspath(path).endswith((".json", ".json.gz"))


def is_delimited(path: str | os.PathLike) -> bool:
    """Whether the ending of a file is that of a CSV or TSV."""
    return os.fspath(path).endswith(tuple(_DELIMITERS))


def read_rows(
    path: str | os.PathLike, options: TableOptions
) -> Iterator[tuple[int, Row | BadRecordError]]:
    """(number from 1, row) of a file, one at a time.

    A row that cannot be read is the error that says so. Blank lines are passed over.
    Rows of a CSV or TSV are numbered without the first line, those of JSON lines by
    their lines.

    Raises:
      BadRecordError: where a compressed file is damaged, a row of a CSV or TSV is too
        large, or the first line does not name the columns. Rows before that place have
        come out.
      OSError: if it cannot be read.
    """
    name = os.fspath(path)
    if name.endswith(_LINES):
        return read_json_rows(name)
    return _named(name, _delimited(name, options))


def read_json_rows(
    path: str | os.PathLike,
) -> Iterator[tuple[int, Row | BadRecordError]]:
    """The same of JSON lines, whatever the ending of the file."""
    return _named(os.fspath(path), read_lines(path))


def _named(
    path: str, values: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, Row | BadRecordError]]:
    file = pathlib.Path(path).name
    for number, value in values:
        if not isinstance(value, BadRecordError):
            value = Row(value, f"{file}:{number}")
        yield number, value


def row_of(value: Any) -> Row:
    """A row as it was read, or a JSON object that is of no file."""
    return value if isinstance(value, Row) else Row(value, "")


def record_id(fields: Fields, otherwise: str, options: TableOptions) -> str:
    """The id of a row by its column; blank or none: `otherwise`.

    Raises:
      BadRecordError: if it is no string and no whole number, or the column that the
        options name is not there.
    """
    column = options.id_column
    if column:
        name = fields.get(column, anything)
    else:
        name = fields.get("id", anything, otherwise)
    if type(name) is int:
        return str(name)
    if not isinstance(name, str):
        raise wrong_type(name, column or "id", "a string or a whole number")
    return name if name.strip() else otherwise


def digest_id(value: Any) -> str:
    """An id of a record that has none and is of no file: of its texts, as JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:_ID_DIGITS]


def _delimited(name: str, options: TableOptions) -> Iterator[tuple[int, Any]]:
    delimiter = _NAMED.get(options.delimiter, options.delimiter) or _delimiter_of(name)
    quoting = csv.QUOTE_MINIMAL if options.quotes else csv.QUOTE_NONE
    number = 0
    try:
        with open_input(name) as file:
            rows = _Rows(file, delimiter=delimiter, quoting=quoting, strict=True)
            columns = _columns(rows.next())
            while (cells := rows.next()) is not None:
                if cells == []:
                    continue
                number += 1
                yield number, _by_column(columns, cells)
    except BadRecordError as e:
        raise e.at(f"{name}, after record {number}") from e


def _delimiter_of(name: str) -> str:
    for ending, delimiter in _DELIMITERS.items():
        if name.endswith(ending):
            return delimiter
    raise BadRecordError(
        "unknown file",
        f"{name}: expected a file named {', '.join((*_DELIMITERS, *_LINES))}, or the "
        "option delimiter",
    )


def _columns(cells: list[str] | BadRecordError | None) -> list[str]:
    """The first line, if it can name columns."""
    if isinstance(cells, BadRecordError):
        raise BadRecordError("broken header", cells.message)
    if not cells:
        raise BadRecordError("broken header", "no first line with names of columns")
    if twice := sorted({x for x in cells if cells.count(x) > 1}):
        raise BadRecordError(
            "broken header",
            f"the first line names {twice[0]!r:.60} twice; it should give each column "
            f"a name of its own: {_listed(cells)}",
        )
    return cells


def _by_column(
    columns: list[str], cells: list[str] | BadRecordError
) -> dict[str, str] | BadRecordError:
    if isinstance(cells, BadRecordError):
        return cells
    if len(cells) != len(columns):
        return BadRecordError(
            "wrong number of columns",
            f"{len(cells)}, expected {len(columns)}: {_listed(columns)}",
        )
    return dict(zip(columns, cells, strict=True))


def _listed(columns: list[str]) -> str:
    more = ", ..." if len(columns) > _MOST_SHOWN else ""
    return ", ".join(f"{name:.40}" for name in columns[:_MOST_SHOWN]) + more


class _Rows:
    """The rows of a CSV, each within the bound of a record."""

    def __init__(self, file: BinaryIO, **dialect: Any):
        self._lines, self._size = lines(file), 0
        self._fault: BadRecordError | None = None
        self._reader = csv.reader(self, **dialect)

    def next(self) -> list[str] | BadRecordError | None:
        """The cells of the next row, or what is wrong with it; None at the end.

        Raises:
          BadRecordError: if a row is too large: where it ends is not known.
        """
        self._size, self._fault = 0, None
        # The module has one bound for all readers: it is put back.
        before = csv.field_size_limit(max_record_bytes())
        try:
            cells = next(self._reader, None)
        except csv.Error as e:
            return self._fault or BadRecordError("broken row", str(e))
        finally:
            csv.field_size_limit(before)
        return self._fault or cells

    # --- the lines of the file, for the reader ---

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        if isinstance(line, BadRecordError):
            raise BadRecordError("record too large", line.message)
        self._size += len(line)
        if self._size > max_record_bytes():  # a quote is open
            row = f"the row that goes on in line {number}"
            raise too_large("record too large", row, self._size)
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as e:
            # The reader goes on, for it knows which lines are of one row.
            self._fault = BadRecordError("not UTF-8", f"line {number}: {e}")
            return line.decode("utf-8", "replace")
