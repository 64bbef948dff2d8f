"""Predictions of many records as files of a few each, which appear whole or not at all.

    OUT/parts/00007.jsonl

The first line of a part names what made it, each other line holds a record: its id, its
predictions, and why it could not be made an input. Parts do not depend on who makes
them, so that processes on several machines can share the work, stop, and go on.
"""

from __future__ import annotations

import json
import os
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.training.errors import UserError

FOLDER = "parts"
RECORDS = 32  # of a part: what a process that is killed loses at most


class Answer(NamedTuple):
    """What became of a record.

    Attributes:
      id: of the record.
      predictions: one for each setting of decoding.
      problem: why it was no input, as (kind, message); None if it was one.
    """

    id: str
    predictions: list[Any]
    problem: tuple[str, str] | None


class Parts:
    """The parts of one evaluation.

    Attributes:
      count: how many parts there are in the end.
    """

    def __init__(
        self, out: pathlib.Path, ids: Sequence[str], made_by: Mapping[str, Any]
    ):
        """Enters the folder, or makes it.

        Args:
          out: folder of the evaluation.
          ids: of all records, in order.
          made_by: JSON values that decide what the predictions are.

        Raises:
          UserError: if a part there was made by something else, or is damaged.
        """
        self._folder, self._ids = out / FOLDER, ids
        self._made_by = json.loads(json.dumps(made_by))
        self.count = -(-len(ids) // RECORDS)
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.jsonl")):
            self._check(path)

    def _check(self, path: pathlib.Path) -> None:
        with open(path, encoding="utf-8") as file:
            there = _values(file.readline(), path)
        if there == self._made_by:
            return
        names = sorted(there.keys() | self._made_by.keys())
        differing = [
            f"{name}: {there.get(name)!r} there, {self._made_by.get(name)!r} now"
            for name in names
            if there.get(name) != self._made_by.get(name)
        ]
        raise UserError(
            f"{self._folder.parent} holds the predictions of another evaluation; name "
            "another --out. What differs:\n  " + "\n  ".join(differing)
        )

    def numbers(self, part: int) -> range:
        """The numbers of a part's records."""
        return range(part * RECORDS, min((part + 1) * RECORDS, len(self._ids)))

    def missing(self) -> list[int]:
        """The parts that are still to be made, in order."""
        return [i for i in range(self.count) if not self._path(i).exists()]

    def write(self, part: int, answers: Sequence[Answer]) -> None:
        """Writes a part.

        Raises:
          OSError: if the storage refuses.
        """
        lines = [self._made_by, *(answer._asdict() for answer in answers)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_whole(self._path(part), text)

    def answers(self) -> list[Answer]:
        """Those of all parts, in the order of the records.

        Raises:
          UserError: if a part is damaged, or of other records.
        """
        return [answer for part in range(self.count) for answer in self._read(part)]

    def _read(self, part: int) -> list[Answer]:
        path = self._path(part)
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
        values = [_values(line, path) for line in lines]
        ids = [self._ids[number] for number in self.numbers(part)]
        if [value.get("id") for value in values] != ids:
            raise UserError(f"{path} has not the records that it should; delete it")
        return [Answer(**value) for value in values]

    def _path(self, part: int) -> pathlib.Path:
        return self._folder / f"{part:05d}.jsonl"


def _values(line: str, path: pathlib.Path) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); delete it") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is damaged (a line is no object); delete it")
    return values


def write_whole(path: pathlib.Path, text: str) -> None:
    """Writes a file that is there whole or not at all, whoever else writes it."""
    part = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the name alone
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
