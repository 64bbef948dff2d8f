"""Files with one JSON value a line or row: released ones, and predictions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from etc_jax.data import arrow_files
from etc_jax.data.input_files import BadRecordError, lines, open_input
from etc_jax.datasets.records import Note, Problems, read_records

T = TypeVar("T")

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonlines", ".jsonlines.gz")


def has_objects(path: str | os.PathLike) -> bool:
    """Whether a path is that of JSON lines, or of rows of Parquet or Arrow files."""
    return os.fspath(path).endswith(ENDINGS) or arrow_files.is_arrow(path)


def read_line_records(
    paths: Sequence[str | os.PathLike],
    parse: Callable[[Any, Note], T],
    problems: Problems | None = None,
) -> Iterator[T]:
    """As `records.read_records`, of files with a value a line.

    A line that is no JSON costs one record: the lines after it are read.

    Raises:
      BadRecordError: without `problems`, naming the file and the line.
      OSError: if a file cannot be read.
    """
    return read_records(paths, parse, problems, read_fn=read_lines)


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, value) of each line that is not blank, one at a time.

    The rows of a Parquet or Arrow file, or of a folder of them, are such values too
    (`data.arrow_files`). The value of a line that is no JSON, or too long, is the error
    that says so.

    Raises:
      BadRecordError: where a compressed file is damaged or cut short. Lines before that
        place have come out.
      OSError: if it cannot be read.
    """
    if arrow_files.is_arrow(path):
        yield from arrow_files.read_rows(path)
        return
    name, number = os.fspath(path), 0
    try:
        with open_input(name) as file:
            for number, line in lines(file):
                if isinstance(line, BadRecordError):
                    yield number, line
                elif line.strip():
                    yield number, _value(line)
    except BadRecordError as e:
        raise e.at(f"{name}, after line {number}") from e


def _value(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except RecursionError:
        return BadRecordError("broken line", "nested too deeply")
    except ValueError as e:
        return BadRecordError("broken line", f"{e}; expected one JSON object a line")


def text_of(values: Iterable[Any]) -> str:
    """The text of a file of some values."""
    return "".join(f"{json.dumps(value)}\n" for value in values)
