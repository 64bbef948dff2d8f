"""The wire format of protocol buffers, as far as files of other projects need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_VARINT, _SIZED = 0, 2
# Wire types of values of one size -> their bytes.
_FIXED = {1: 8, 5: 4}


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position after it) of a base-128 number."""
    value = shift = 0
    while True:
        # Seven bits a byte, the lowest first; the eighth says that more follow.
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a message, in order.

    A value is bytes, or an int: what has one size is read as a number without a sign.

    Raises:
      ValueError: if a field has a type that the format has no longer.
    """
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(message, at)
        elif kind == _SIZED:
            size, at = varint(message, at)
            value, at = message[at : at + size], at + size
        elif kind in _FIXED:
            end = at + _FIXED[kind]
            value, at = int.from_bytes(message[at:end], "little"), end
        else:
            raise ValueError(f"a protocol buffer has a field of unknown type {kind}")
        yield tag >> 3, value
