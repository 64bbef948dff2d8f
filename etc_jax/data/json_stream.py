"""JSON of any length, read a value at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError, max_record_bytes, too_large

CUT_SHORT, BROKEN = "file cut short", "broken JSON"

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
# What is cut off within a word or an escape is an error so far from the end at most.
_LONGEST_WORD = len(r"\ud83d\ude00")
_NUMBER = "-0123456789"


class BadJsonError(BadRecordError):
    """The text goes on with something else than it should."""


class JsonStream:
    """A window on a text that moves over one JSON value after another.

    Nothing but a value and some text is held. Every error of its own is a
    `BadJsonError` with the line; the stream stands where it was found then.
    """

    def __init__(self, pieces: Iterable[str]):
        """Takes the text, in pieces of any length."""
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
        rest = self._text[self._at :]
        more, size = [], 0
        while size <= len(rest) and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            more.append(piece or "")
            size += len(more[-1])
        self._text, self._at = rest + "".join(more), 0

    def peek(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._grow()

    def take(self, marks: str) -> str:
        """Moves over one of some characters, which must be next."""
        next_character = self.peek()
        if next_character and next_character in marks:
            self._at += 1
            return next_character
        got = repr(next_character) if next_character else "the end"
        expected = " or ".join(map(repr, marks))
        raise BadJsonError(
            BROKEN if next_character else CUT_SHORT,
            f"{got} in line {self.line}, expected {expected}",
        )

    def value(self) -> Any:
        """The next value."""
        if not self.peek():
            raise BadJsonError(
                CUT_SHORT, f"the end in line {self.line}, expected a value"
            )
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as e:
                may_go_on = self._may_be_cut_off(e)
                if self._ended or not may_go_on:
                    kind = CUT_SHORT if may_go_on else BROKEN
                    message = f"{e.msg} in line {self._line_of(e.pos)}"
                    raise BadJsonError(kind, message) from e
            except RecursionError as e:
                raise BadJsonError(
                    BROKEN, f"nested too deeply, from line {self.line} on"
                ) from e
            except ValueError as e:  # a number of thousands of digits
                raise BadJsonError(BROKEN, f"{e}, from line {self.line} on") from e
            else:
                if self._ended or not self._may_go_on(end):
                    self._at = end
                    return value
            if (size := len(self._text) - self._at) > max_record_bytes():
                what = f"the value from line {self.line} on"
                error = too_large("record too large", what, size)
                raise BadJsonError(error.kind, error.message)
            self._grow()

    def _may_be_cut_off(self, error: json.JSONDecodeError) -> bool:
        """Whether what is wrong may be that the window ends."""
        is_string = error.msg.startswith("Unterminated string")
        return is_string or error.pos > len(self._text) - _LONGEST_WORD

    def _may_go_on(self, end: int) -> bool:
        """Whether a value may go on after the window: a number, as 1 of 1e-7 may."""
        is_number = self._text[self._at] in _NUMBER
        return is_number and end > len(self._text) - len("e-7")

    def elements(self) -> Iterator[Any]:
        """The elements of the array that is next."""
        self.take("[")
        if self.peek() == "]":
            self.take("]")
            return
        yield self.value()
        while self.take(",]") == ",":
            yield self.value()

    def members(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of the members of the object that is next.

        Of a member that is an array, each element comes by itself, under its name.
        """
        self.take("{")
        if self.peek() == "}":
            self.take("}")
            return
        yield from self._member()
        while self.take(",}") == ",":
            yield from self._member()

    def _member(self) -> Iterator[tuple[str, Any]]:
        if self.peek() not in ('"', ""):
            self.take('"')
        name = self.value()
        self.take(":")
        if self.peek() == "[":
            for value in self.elements():
                yield name, value
        else:
            yield name, self.value()

    def end(self) -> None:
        """Raises BadJsonError if anything but white space is left."""
        if rest := self.peek():
            raise BadJsonError(
                "text after the end",
                f"{rest!r} in line {self.line}, where the file should end",
            )

    def skip_to_line_with_brace(self) -> None:
        """Moves to the next line that begins with a brace, or to the end."""
        while (start := self._text.find("\n{", self._at)) < 0:
            if self._ended:
                self._at = len(self._text)
                return
            # The last character may be the end of the line before.
            self._at = max(self._at, len(self._text) - 1)
            self._grow()
        self._at = start + 1
