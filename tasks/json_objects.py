"""Files that hold one JSON object, read a value at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tasks.records import BROKEN_GZIP, BadRecordError, JsonReader, open_text


class _ObjectReader(JsonReader):
    """Moves over the members of a JSON object."""

    def members(self) -> Iterator[tuple[str, Any]]:
        """See `read_members`."""
        self._take("{")
        if self.peek() == "}":
            self._take("}")
        else:
            yield from self._member()
            while self._take(",}") == ",":
                yield from self._member()
        if self.peek():
            raise json.JSONDecodeError("Extra data", self._text, self._at)

    def _member(self) -> Iterator[tuple[str, Any]]:
        name = self._value()
        self._take(":")
        if self.peek() != "[":
            yield name, self._value()
            return
        self._take("[")
        if self.peek() == "]":
            self._take("]")
            return
        yield name, self._value()
        while self._take(",]") == ",":
            yield name, self._value()

    def _take(self, marks: str) -> str:
        """Moves over one of some characters, which must be next."""
        found = self.peek()
        if not found:
            raise EOFError("the file ends inside of the object")
        if found not in marks:
            expected = " or ".join(map(repr, marks))
            raise json.JSONDecodeError(f"Expecting {expected}", self._text, self._at)
        self._at += 1
        return found


def read_members(path: str | os.PathLike) -> Iterator[tuple[str, Any]]:
    """(name, value) of the members of the JSON object in a file, one at a time.

    Of a member that is an array, each element comes by itself, under the same name, so
    that no more than one of them is in memory.

    Raises:
      BadRecordError: where the file is cut short, is no JSON object, is not UTF-8, or
        goes on after it. Values before that place have come out.
      OSError: if it cannot be read.
    """
    name, number = os.fspath(path), 0
    try:
        with open_text(name) as file:
            for member in _ObjectReader(file).members():
                number += 1
                yield member
    except (ValueError, RecursionError, EOFError, *BROKEN_GZIP) as e:
        kind = "file cut short" if isinstance(e, EOFError) else "broken JSON"
        raise BadRecordError(
            kind,
            f"{name}, behind value {number}: {e}; expected a JSON object in UTF-8: "
            "fetch the file again",
        ) from e
