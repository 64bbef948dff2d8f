"""Files of one's own whose columns have names: CSV, TSV and JSON lines.

A row is {column: value}. The first line of a CSV or TSV names the columns, and its
values are texts; JSON lines have an object a line. What is damaged costs one row: the
rows after it are read.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, NamedTuple

from etc_jax.data.input_files import (
    BadRecordError,
    decoded,
    lines,
    max_record_bytes,
    open_input,
    too_large,
)
from etc_jax.datasets.fields import Fields, anything, wrong_type
from etc_jax.datasets.json_lines import ENDINGS, has_objects, read_lines
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import Note

_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_NAMED = {"tab": "\t"}
_QUOTE = '"'
_MOST_SHOWN = 20
# Lines after a quote that all have the columns of a row, where the quote does not end
# a field: from so many on they are rows.
_SURELY_ROWS = 3
# In a field that ends as it should, so many such lines may still be text.
_MOST_ROWS_IN_A_FIELD = 10
_CUT_SHORT = "unexpected end of data"  # of the module csv
_MEND = 'write a quote in a field twice (""), or give --no-quotes where quotes are text'
_ID_DIGITS = 16


class Row(NamedTuple):
    """A row of a file.

    Attributes:
      values: of its columns: of JSON lines any JSON value, which should be an object.
      name: the file and the row's number: an id for rows without one.
      lines: of a CSV or TSV, where the row has several; () otherwise.
    """

    values: Any
    name: str
    lines: Sequence[int] = ()


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
        delimiter = _NAMED.get(self.delimiter, self.delimiter)
        if len(delimiter) > 1 or delimiter in (_QUOTE, "\n", "\r", "\0"):
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


def is_table(path: str | os.PathLike) -> bool:
    """Whether a file has rows with named columns, by its ending."""
    return is_delimited(path) or has_objects(path)


def read_rows(
    path: str | os.PathLike, options: TableOptions
) -> Iterator[tuple[int, Row | BadRecordError]]:
    """(number from 1, row) of a file, one at a time.

    A row that cannot be read is the error that says so. Blank lines are passed over.
    Rows of a CSV or TSV are numbered without the first line, those of JSON lines by
    their lines.

    Raises:
      BadRecordError: where a compressed file is damaged, a row of a CSV or TSV is too
        large, a quote in it is never closed, or the first line does not name the
        columns. Rows before that place have come out.
      OSError: if it cannot be read.
    """
    name = os.fspath(path)
    if has_objects(name):
        return read_json_rows(name)
    return _delimited(name, options)


def read_json_rows(
    path: str | os.PathLike,
) -> Iterator[tuple[int, Row | BadRecordError]]:
    """The same of JSON lines, whatever the ending of the file."""
    file = pathlib.Path(path).name
    for number, value in read_lines(path):
        if not isinstance(value, BadRecordError):
            value = Row(value, f"{file}:{number}")
        yield number, value


def row_of(value: Any, note: Note) -> Row:
    """A row as it was read, or a JSON object that is of no file.

    Args:
      value: of the file.
      note: called with (kind, message) for a row over several lines: a quote that is
        stray takes the rows after it for the text of a field.
    """
    if not isinstance(value, Row):
        return Row(value, "")
    if value.lines:
        note(
            "field over several lines",
            f"lines {value.lines[0]} to {value.lines[-1]} are one row, by its quotes",
        )
    return value


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


def _delimited(
    name: str, options: TableOptions
) -> Iterator[tuple[int, Row | BadRecordError]]:
    delimiter = _NAMED.get(options.delimiter, options.delimiter) or _delimiter_of(name)
    quoting = csv.QUOTE_MINIMAL if options.quotes else csv.QUOTE_NONE
    file_name, number = pathlib.Path(name).name, 0
    try:
        with open_input(name) as file:
            rows = _Rows(file, delimiter=delimiter, quoting=quoting, strict=True)
            columns = _columns(rows.next())
            rows.width = len(columns)
            while (cells := rows.next()) is not None:
                if cells == []:
                    continue
                number += 1
                values = _by_column(columns, cells)
                if isinstance(values, BadRecordError):
                    yield number, values
                    continue
                several = rows.lines if len(rows.lines) > 1 else ()
                yield number, Row(values, f"{file_name}:{number}", several)
    except BadRecordError as e:
        raise e.at(f"{name}, after record {number}") from e


def _delimiter_of(name: str) -> str:
    for ending, delimiter in _DELIMITERS.items():
        if name.endswith(ending):
            return delimiter
    raise BadRecordError(
        "unknown file",
        f"{name}: expected a file named {', '.join((*_DELIMITERS, *ENDINGS))}, or the "
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
    """The rows of a CSV, each within the bound of a record.

    A stray quote at the start of a field takes the rows after it for the text of the
    field, up to the next quote. Where that quote does not end a field, or there is
    none, the lines after the first are read again if all of them are rows.

    Attributes:
      width: columns of a row; None before they are known.
      lines: numbers of those of the last row.
    """

    def __init__(self, file: BinaryIO, **dialect: Any):
        self.width: int | None = None
        self._numbered, self._again = lines(file), collections.deque()
        self._row: list[tuple[int, bytes]] = []
        self._size = 0
        self._fault: BadRecordError | None = None
        self._dialect = dialect
        self._reader = csv.reader(self, **dialect)

    @property
    def lines(self) -> range:
        return range(self._row[0][0], self._row[-1][0] + 1)

    def next(self) -> list[str] | BadRecordError | None:
        """The cells of the next row, or what is wrong with it; None at the end.

        Raises:
          BadRecordError: if a row is too large, or a quote is never closed: where it
            ends is not known.
        """
        self._row, self._size, self._fault = [], 0, None
        # The module has one bound for all readers: it is put back.
        before = csv.field_size_limit(max_record_bytes())
        try:
            cells = next(self._reader, None)
            fault = self._fault or self._stray_quote()
        except csv.Error as e:
            fault = self._fault or self._broken(str(e))
        finally:
            csv.field_size_limit(before)
        return fault or cells

    def _broken(self, why: str) -> BadRecordError:
        first, last = self.lines[0], self.lines[-1]
        if first == last:
            return BadRecordError("broken row", f"line {first}: {why}")
        after = self._row[1:]
        if len(after) >= _SURELY_ROWS and self._are_rows(after):
            self._again.extendleft(reversed(after))
            return BadRecordError(
                "broken row",
                f"line {first}: a quote opens a field that does not end up to line "
                f"{last}, and the lines after it are read as rows; {_MEND}",
            )
        if why == _CUT_SHORT:
            raise BadRecordError(
                "quote never closed",
                f"a quote opens in line {first} and is not closed up to line {last}, "
                f"the last one; {_MEND}",
            )
        return BadRecordError("broken row", f"lines {first} to {last}: {why}; {_MEND}")

    def _stray_quote(self) -> BadRecordError | None:
        """Why a row over several lines is rather many rows; None if it is not."""
        inner = self._row[1:-1]
        if len(inner) < _MOST_ROWS_IN_A_FIELD or not self._are_rows(inner):
            return None
        return BadRecordError(
            "rows in a field",
            f"a field in quotes goes from line {self.lines[0]} to line "
            f"{self.lines[-1]}, and each of the {len(inner)} lines in it has the "
            f"{self.width} columns of a row; {_MEND}",
        )

    def _are_rows(self, numbered: list[tuple[int, bytes]]) -> bool:
        """Whether each of some lines has the columns of a row by itself."""
        if self.width is None or self.width < 2:  # any line is a row of one column
            return False
        texts = (line.decode("utf-8", "replace") for _, line in numbered)
        try:
            return all(
                len(next(csv.reader([text], **self._dialect))) == self.width
                for text in texts
            )
        except csv.Error:
            return False

    # --- the lines of the file, for the reader ---

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            number, line = self._again.popleft()
        else:
            number, line = next(self._numbered)
        if isinstance(line, BadRecordError):
            raise BadRecordError("record too large", line.message)
        self._row.append((number, line))
        self._size += len(line)
        if self._size > max_record_bytes():  # a quote is open
            row = f"the row from line {self.lines[0]} that goes on in line {number}"
            raise too_large("record too large", row, self._size)
        try:
            return decoded(line, number)
        except BadRecordError as e:
            # The reader goes on, for it knows which lines are of one row.
            self._fault = e
            return line.decode("utf-8", "replace")
