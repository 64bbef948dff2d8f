"""Raw records as people have them at hand: one, a list, or one a line.

They are read as a stream: of a long file nothing but a record and some text is held.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

STANDARD_INPUT = "-"
CHUNK_BYTES = 1 << 20

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
# What is cut off within a word or an escape is an error so far from the end at most.
_LONGEST_WORD = len(r"\ud83d\ude00")
_NUMBER = "-0123456789"
_UNREADABLE = (OSError, EOFError, UnicodeDecodeError, zlib.error)


class Raw(NamedTuple):
    """A value of some input, or what is wrong in its place.

    Attributes:
      where: the input, and number or line of the record.
      value: of the JSON; None if there is a fault.
      fault: why it cannot be read; None if it can.
    """

    where: str
    value: Any
    fault: str | None = None


def read_inputs(names: Sequence[str]) -> Iterator[Raw]:
    """The records of some files; "-" is standard input, `.gz` is unpacked."""
    for name in names:
        shown = "standard input" if name == STANDARD_INPUT else name
        try:
            yield from raw_records(_pieces(name), shown)
        except _UNREADABLE as error:
            yield Raw(shown, None, f"cannot be read: {error}")


def _pieces(name: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    with _opened(name) as file:
        # As much as is there: a terminal or a pipe is not waited for.
        while chunk := file.read1(CHUNK_BYTES):
            yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _opened(name: str) -> Any:
    if name == STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin.buffer)
    return gzip.open(name, "rb") if name.endswith(".gz") else open(name, "rb")


def raw_records(pieces: Iterable[str], name: str) -> Iterator[Raw]:
    """The records of a text: a JSON array of them, or objects one after another.

    An object may take any number of lines. After a fault reading goes on at the next
    line that begins with a brace.

    Args:
      pieces: the text, in pieces of any length.
      name: where it is from.
    """
    text, count = _Text(pieces), 0
    if not text.peek():
        yield Raw(name, None, "is empty; expected records as JSON")
    while text.peek():
        try:
            # The elements of an array are counted on, over all of the input.
            for value in text.values():
                count += 1
                yield Raw(f"{name}, record {count}", value)
        except _NotJsonError as error:
            yield Raw(f"{name}, line {text.line}", None, f"is not JSON: {error}")
            text.skip_to_line_with_brace()


class _NotJsonError(Exception):
    """The text goes on with something else."""


class _Text:
    """A window on a text that moves over one JSON value after another."""

    def __init__(self, pieces: Iterable[str]):
        self._pieces = iter(pieces)
        self._text, self._at, self._lines = "", 0, 1
        self._ended = False

    @property
    def line(self) -> int:
        """Number of the line that it stands in, from 1."""
        return self._line_of(self._at)

    def _line_of(self, at: int) -> int:
        return self._lines + self._text.count("\n", 0, at)

    def _grow(self) -> None:
        """Takes in as much again, so that trying again and again stays linear."""
        self._lines = self.line
        kept = self._text[self._at :]
        more, size = [], 0
        while size <= len(kept) and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            more.append(piece or "")
            size += len(more[-1])
        self._text, self._at = kept + "".join(more), 0

    def peek(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._grow()

    def values(self) -> Iterator[Any]:
        """The value that is next, or its elements if it is an array.

        Raises:
          _NotJsonError: where there is none; it stands there then.
        """
        if self.peek() != "[":
            yield self._value()
            return
        self._at += 1
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            if (mark := self.peek()) not in (",", "]"):
                got = repr(mark) if mark else "the end"
                raise _NotJsonError(f"{got} in an array, expected ',' or ']'")
            self._at += 1
            if mark == "]":
                return

    def _value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or not self._may_be_cut_off(error):
                    line = self._line_of(error.pos)
                    raise _NotJsonError(f"{error.msg} in line {line}") from error
            except (ValueError, RecursionError) as error:
                raise _NotJsonError(str(error)) from error
            else:
                if self._ended or not self._may_go_on(end):
                    self._at = end
                    return value
            self._grow()

    def _may_be_cut_off(self, error: json.JSONDecodeError) -> bool:
        """Whether what is wrong may be that the window ends."""
        is_string = error.msg.startswith("Unterminated string")
        return is_string or error.pos > len(self._text) - _LONGEST_WORD

    def _may_go_on(self, end: int) -> bool:
        """Whether a value may go on behind the window: a number, as 1 of 1e-7 may."""
        is_number = self._text[self._at] in _NUMBER
        return is_number and end > len(self._text) - len("e-7")

    def skip_to_line_with_brace(self) -> None:
        """Moves to the next line that begins with a brace, or to the end."""
        while (found := self._text.find("\n{", self._at)) < 0:
            if self._ended:
                self._at = len(self._text)
                return
            # The last character may be the end of the line before.
            self._at = max(self._at, len(self._text) - 1)
            self._grow()
        self._at = found + 1
