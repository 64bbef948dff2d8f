"""Texts that a command line names: a text a line, or a JSON object a line."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from etc_jax.base.local_paths import STANDARD_INPUT
from etc_jax.data.arrow_files import is_arrow
from etc_jax.data.input_files import BadRecordError, open_given, text_lines
from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.tables import Row, read_json_rows

T = TypeVar("T")


def read_texts(
    name: str, field: str, parse: Callable[[Row], T]
) -> Iterator[tuple[str, T | BadRecordError]]:
    """(where it stands, text) of each text of a file, or of standard input (-).

    JSON lines and rows of Parquet give their objects. Of any other file, gzipped if
    named `.gz`, each line gives {field: text}, without white space around the text.
    What cannot be read or parsed is the error that says so, and where it stands.

    Args:
      name: of the file.
      field: that has the text.
      parse: makes a text of a row, or raises BadRecordError.

    Raises:
      BadRecordError: naming the file, where it is damaged, or is no text in UTF-8.
        Texts before that place have come out.
      OSError: if it cannot be read.
    """
    for where, row in _rows(name, field):
        try:
            if isinstance(row, BadRecordError):
                raise row
            text: Any = parse(row)
        except BadRecordError as error:
            text = error.at(where)
        yield where, text


def _rows(name: str, field: str) -> Iterator[tuple[str, Row | BadRecordError]]:
    """(where it stands, row) of each text; see `read_texts`."""
    shown = "standard input" if name == STANDARD_INPUT else name
    if has_objects(name):
        unit = "row" if is_arrow(name) else "line"
        for number, row in read_json_rows(name):
            yield f"{shown}, {unit} {number}", row
        return
    file_name, number = pathlib.Path(name).name, 0
    try:
        with open_given(name) as file:
            for number, text in text_lines(file):
                if isinstance(text, BadRecordError):  # which names the line
                    yield shown, text
                    continue
                row = Row({field: text.strip()}, f"{file_name}:{number}")
                yield f"{shown}, line {number}", row
    except BadRecordError as e:
        raise e.at(f"{shown}, after line {number}" if number else shown) from e
