"""Predictions of many records as files of a few each, which appear whole or not at all.

    OUT/parts/00007.jsonl

The first line of a part names what made it and has a checksum of the whole, each other
line holds a record: its id, its predictions, and why it could not be made an input.
Parts do not depend on who makes them, so that processes on several machines can share
the work, stop, and go on. A damaged part is put aside and made anew.
"""

from __future__ import annotations

import json
import logging
import pathlib
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.base import strict_json
from etc_jax.base.whole_files import write_whole
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

FOLDER = "parts"
_SEAL = "crc32"  # beside what made a part
RECORDS = 32  # of a part: what a process that is killed loses at most


class Answer(NamedTuple):
    """What became of a record.

    Attributes:
      id: of the record.
      predictions: one for each setting of decoding.
      problem: why it was no input, as (kind, message); None if it was one.
      cut: what of it was too long, see `Input`; None: nothing.
    """

    id: str
    predictions: list[Any]
    problem: tuple[str, str] | None
    cut: Mapping[str, Sequence[int]] | None = None


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
          UserError: if a part there was made by something else.
        """
        self._folder, self._ids = out / FOLDER, ids
        self._made_by = json.loads(json.dumps(made_by))
        self.count = -(-len(ids) // RECORDS)
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob(f"{5 * '[0-9]'}.jsonl")):
            self._check(path)

    def _check(self, path: pathlib.Path) -> None:
        try:
            made_by, _ = _opened(path)
        except FileNotFoundError:
            return  # another process has put it aside just now
        except _DamagedError as error:
            aside = path.with_name(f"{path.name}.damaged-{uuid.uuid4().hex[:8]}")
            path.replace(aside)
            _LOG.error("%s; it is made anew, and lies in %s now", error, aside)
            return
        self._check_made_by(made_by)

    def _check_made_by(self, made_by: Mapping[str, Any]) -> None:
        if made_by == self._made_by:
            return
        names = sorted(made_by.keys() | self._made_by.keys())
        differing = [
            f"{name}: {made_by.get(name)!r} there, {self._made_by.get(name)!r} now"
            for name in names
            if made_by.get(name) != self._made_by.get(name)
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
          UserError: if an evaluation that began at the same time wrote another one.
          OSError: if the storage refuses.
        """
        if self._path(part).exists():
            self._check(self._path(part))
        body = "".join(json.dumps(answer._asdict()) + "\n" for answer in answers)
        head = {**self._made_by, _SEAL: _checksum(self._made_by, body)}
        write_whole(self._path(part), json.dumps(head) + "\n" + body)

    def answers(self) -> list[Answer]:
        """Those of all parts, in the order of the records.

        Raises:
          UserError: if a part is damaged, or of another evaluation.
        """
        return [answer for part in range(self.count) for answer in self._read(part)]

    def _read(self, part: int) -> list[Answer]:
        path = self._path(part)
        try:
            made_by, values = _opened(path)
        except _DamagedError as error:
            raise UserError(
                f"{error}; delete it, and give the command again"
            ) from error
        self._check_made_by(made_by)
        ids = [self._ids[number] for number in self.numbers(part)]
        # A file of the right maker and of other records: renamed, or of other data.
        if [value.get("id") for value in values] != ids:
            raise UserError(f"{path} has not the records that it should; delete it")
        return [Answer(**value) for value in values]

    def _path(self, part: int) -> pathlib.Path:
        return self._folder / f"{part:05d}.jsonl"


class _DamagedError(Exception):
    """A part is not what was written."""


def _checksum(made_by: Mapping[str, Any], body: str) -> int:
    return zlib.crc32((json.dumps(made_by, sort_keys=True) + "\n" + body).encode())


def _opened(path: pathlib.Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what made a part, its records as JSON has them).

    Raises:
      _DamagedError: naming it.
    """
    try:
        head, _, body = path.read_bytes().decode("utf-8").partition("\n")
        made_by, *values = map(strict_json.loads, [head, *body.split("\n")[:-1]])
    except ValueError as error:
        raise _DamagedError(f"{path} is damaged ({error})") from error
    if not all(isinstance(value, dict) for value in (made_by, *values)):
        raise _DamagedError(f"{path} is damaged (a line is no object)")
    if _SEAL not in made_by:
        _LOG.warning("%s is of an earlier version, without a checksum", path)
        return made_by, values
    whole = head == json.dumps(made_by)
    seal = made_by.pop(_SEAL)
    if not whole or seal != _checksum(made_by, body):
        raise _DamagedError(f"{path} is damaged (it differs from its own checksum)")
    return made_by, values
