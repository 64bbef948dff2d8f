"""Files that hold one JSON object, read a value at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError, open_input, text_pieces
from etc_jax.data.json_stream import JsonStream


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
        with open_input(name) as file:
            stream = JsonStream(text_pieces(file))
            for member in stream.members():
                number += 1
                yield member
            stream.end()
    except BadRecordError as e:
        raise e.at(f"{name}, after value {number}") from e


def has_member(path: str | os.PathLike, name: str) -> bool:
    """Whether a file holds one JSON object with such a member.

    False for a file that cannot be read so far: its reader says what is wrong.
    """
    try:
        return any(member == name for member, _ in read_members(path))
    except (BadRecordError, OSError):
        return False
