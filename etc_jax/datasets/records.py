"""Records of released files: read as a stream, checked, and counted.

What is wrong with a record is a `BadRecordError`, which names the file and the record.
With a `Problems` the error is counted there and reading goes on; without, it is raised.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from etc_jax.data.input_files import BadRecordError, open_input, text_pieces
from etc_jax.data.json_stream import JsonStream

T = TypeVar("T")

_MOST_PATHS = 1 << 16

# Problems that end the reading of a file: the rest is missing.
FILE_KINDS = (
    "file cut short",
    "file not in UTF-8",
    "no line feed",
    "broken JSON",
    "broken gzip",
    "broken zip",
    "broken Parquet",
    "broken Arrow",
    "several splits",
    "packed too densely",
    "record too large",
    "not a JSON array",
    "broken header",
    "quote never closed",
    "unknown domain",
    "broken XML",
    "unknown file",
    "unknown folder",
    "text after the end",
)


class PassedOverError(BadRecordError):
    """A record that is left out by rule and not for a fault: nothing is lost."""


class RefusedError(BadRecordError):
    """A record for whose sake the metrics of its file would be wrong."""


@dataclasses.dataclass
class Problems:
    """Counts what was wrong, by kind, and keeps the first messages of each kind.

    Attributes:
      read: records that came out of the files.
      lost: further records that were there and cannot be used.
      counts: how often each kind came up.
      messages: the first `most` messages of each kind.
      most: how many messages are kept.
      refused: the first record that forbids metrics of the others; None without one.
    """

    read: int = 0
    lost: int = 0
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    messages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    most: int = 3
    refused: RefusedError | None = None

    def add(self, problem: BadRecordError) -> None:
        if self.refused is None and isinstance(problem, RefusedError):
            self.refused = problem
        self.counts[problem.kind] += 1
        messages = self.messages.setdefault(problem.kind, [])
        if len(messages) < self.most:
            messages.append(problem.message)

    def first_of_files(self) -> BadRecordError | None:
        """A problem that ended the reading of a file; None if there was none."""
        for kind in FILE_KINDS:
            if kind in self.counts:
                return BadRecordError(kind, self.messages[kind][0])
        return None

    def report(self) -> str:
        """The counts and the first messages, a line each."""
        lines = [f"{self.read} records read, {self.counts.total()} problems"]
        for kind, count in self.counts.most_common():
            lines.append(f"  {count} x {kind}")
            lines += [f"      {message}" for message in self.messages[kind]]
        return "\n".join(lines)


# --- stream ---------------------------------------------------------------------------


def read_array(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, value) of the elements of a JSON array, one at a time.

    Raises:
      BadRecordError: where the file is cut short, is no JSON, is not UTF-8, or goes on
        after the array. Elements before that place have come out.
      OSError: if it cannot be read.
    """
    name, number = os.fspath(path), 0
    try:
        with open_input(name) as file:
            stream = JsonStream(text_pieces(file))
            if (first := stream.peek()) != "[":
                raise BadRecordError(
                    "not a JSON array", f"begins with {first!r}, expected '['"
                )
            for value in stream.elements():
                number += 1
                yield number, value
            stream.end()
    except BadRecordError as e:
        raise e.at(f"{name}, after record {number}") from e


# --- records --------------------------------------------------------------------------

Note = Callable[[str, str], None]
RecordLocation = tuple[str, int]
# From a file to (number from 1, JSON value) of its records. A value that is an error
# is a record that cannot be read.
ReadFn = Callable[[str | os.PathLike], Iterator[tuple[int, Any]]]


def read_records(
    paths: Sequence[str | os.PathLike],
    parse: Callable[[Any, Note], T],
    problems: Problems | None = None,
    read_fn: ReadFn = read_array,
) -> Iterator[T]:
    """The records of some files, one after another; nothing but one is in memory.

    Args:
      paths: files in UTF-8, gzipped if named `.gz`.
      parse: from (JSON value, note) to a record with an `id`. It raises BadRecordError
        for what cannot be used, and calls `note(kind, message)` for a part that it
        leaves out.
      problems: where both are counted; None: what cannot be used is raised.
      read_fn: the values of a file; `read_array` if it holds one JSON array.

    Raises:
      BadRecordError: without `problems`, naming the file and the record.
      OSError: if a file cannot be read.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    seen = _Seen()
    for path in paths:
        try:
            for number, value in read_fn(path):
                location = (os.fspath(path), number)
                record = _checked(value, parse, location, seen, problems)
                if record is not None:
                    yield record
        except BadRecordError as e:
            if problems is None:
                raise
            problems.add(e)


def reader(
    parse: Callable[..., T],
    values: Callable[..., Any] = read_array,
    options: Any = None,
) -> Callable[..., Iterator[T]]:
    """`DataSet.read` of some files.

    Args:
      parse: (value, note) -> record; see `read_records`.
      values: path -> the values of a file.
      options: where none are given; None: records do not depend on options. Otherwise
        `parse` and `values` take `options=` too.

    Returns:
      (paths, problems=None) -> the records, as `read_records` gives them; with
      `options=` where they depend on options.
    """
    # A partial can be sent to worker processes, which a function in here cannot.
    bound = {} if options is None else {"options": options}
    return functools.partial(_read, parse=parse, values=values, **bound)


def _read(
    paths: Sequence[str | os.PathLike],
    problems: Problems | None = None,
    *,
    parse: Callable[..., T],
    values: Callable[..., Any],
    **options: Any,
) -> Iterator[T]:
    parse_fn, read_fn = (functools.partial(fn, **options) for fn in (parse, values))
    return read_records(paths, parse_fn, problems, read_fn)


def _checked(value, parse, location: RecordLocation, seen: _Seen, problems):
    """The record, or None if it was counted as unusable."""
    where = _spelled(location)

    def note(kind: str, message: str) -> None:
        if problems is not None:
            problems.add(BadRecordError(kind, f"{where}: {message}"))

    try:
        if isinstance(value, BadRecordError):
            raise value
        record = parse(value, note)
        if (first := seen.find(record.id)) is not None:
            raise BadRecordError(
                "id twice", f"{record.id!r}, first in {_spelled(first)}"
            )
    except BadRecordError as e:
        if problems is None:
            raise e.at(where) from e
        problems.add(e.at(where))
        problems.lost += not isinstance(e, PassedOverError)
        return None
    seen.add(record.id, location)
    if problems is not None:
        problems.read += 1
    return record


class _Seen:
    """Where ids came first. It grows with the files, so it keeps hashes of 64 bits."""

    def __init__(self):
        self._paths: list[str] = []
        self._packed: dict[int, int] = {}

    def find(self, name: str) -> RecordLocation | None:
        """Where an id came first; None if it is new."""
        if (packed := self._packed.get(hash(name))) is None:
            return None
        number, path = divmod(packed, _MOST_PATHS)
        return self._paths[path], number

    def add(self, name: str, location: RecordLocation) -> None:
        path, number = location
        if path not in self._paths[-1:]:
            self._paths.append(path)
        # One number takes half of the memory of a pair.
        self._packed[hash(name)] = number * _MOST_PATHS + len(self._paths) - 1


def _spelled(location: RecordLocation) -> str:
    return f"{location[0]}, record {location[1]}"
