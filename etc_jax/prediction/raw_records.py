"""Raw records as people have them at hand: one, a list, or one a line."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

STANDARD_INPUT = "-"

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


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
            text = _content(name).decode("utf-8-sig")
        except (OSError, EOFError, UnicodeDecodeError) as error:
            yield Raw(shown, None, f"cannot be read: {error}")
        else:
            yield from raw_records(text, shown)


def _content(name: str) -> bytes:
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    open_fn = gzip.open if name.endswith(".gz") else open
    with open_fn(name, "rb") as file:
        return file.read()


def raw_records(text: str, name: str) -> Iterator[Raw]:
    """The records of a text: a JSON array of them, or objects one after another.

    An object may take any number of lines. After a fault reading goes on at the next
    line that begins with a brace.

    Args:
      text: all of it.
      name: where it is from.
    """
    at, count = _skip_space(text, 0), 0
    if at == len(text):
        yield Raw(name, None, "is empty; expected records as JSON")
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, at) + 1
            yield Raw(f"{name}, line {line}", None, f"is not JSON: {error}")
            at = text.find("\n{", at) + 1 or len(text)
        else:
            # The elements of an array are counted on, over all of the input.
            values = value if isinstance(value, list) else [value]
            for element in values:
                count += 1
                yield Raw(f"{name}, record {count}", element)
        at = _skip_space(text, at)


def _skip_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()
