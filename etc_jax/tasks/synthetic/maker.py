"""What makes invented items of a data set, and the form of their files."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from etc_jax.base.whole_files import whole_text

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes records; registered as "invented_items" under a name of `--task`.

    Attributes:
      records: (count, seed=, sizes=, start=) -> records of an endless series.
      sizes: dataclass of how large and hard records are; its fields are flags.
      lines: whether a file has one record a line; otherwise it has one JSON array.
      around: what stands before and after the records of an array.
      splits: those of a release that is a folder of files; (): it is one file.
      write_split: (folder, records, split=) -> what was written, of such a release;
        a file or folder that is there is not replaced.
      data_set: that has such records; None: the one of the same name.
    """

    records: Callable[..., Iterable[Any]]
    sizes: type
    lines: bool = False
    around: tuple[str, str] = ("[", "]")
    splits: tuple[str, ...] = ()
    write_split: Callable[..., pathlib.Path] | None = None
    data_set: str | None = None

    def write(self, path: str | os.PathLike, records: Iterable[dict[str, Any]]) -> None:
        """Writes a file of records; see `write_records`."""
        write_records(path, records, lines=self.lines, around=self.around)


def series(
    make: Callable[[int, int, Any], T], sizes_class: type
) -> Callable[..., Iterator[T]]:
    """`Maker.records` of an endless series of independent records.

    Args:
      make: (number, seed, sizes) -> record, which depends on these alone.
      sizes_class: of the sizes, where none are given.

    Returns:
      (count, *, seed, sizes=None, start=0) -> records `start .. start + count - 1`.
    """

    def records(
        count: int, *, seed: int, sizes: Any = None, start: int = 0
    ) -> Iterator[T]:
        sizes = sizes or sizes_class()
        return (make(number, seed, sizes) for number in range(start, start + count))

    # Whose docstring says what the records are, for --help.
    records.__module__ = make.__module__
    return records


def write_records(
    path: str | os.PathLike,
    records: Iterable[dict[str, Any]],
    *,
    lines: bool = False,
    around: tuple[str, str] = ("[", "]"),
) -> None:
    """Writes a file of records, which appears whole or not at all.

    Args:
      path: of the file; gzipped if it is named `.gz`.
      records: JSON objects.
      lines: one object a line, and nothing else; otherwise one JSON array.
      around: what stands before and after the records of an array.

    Raises:
      OSError: if it cannot be written.
    """
    with whole_text(path) as handle:
        for text in _pieces(records, lines, around):
            handle.write(text)


def _pieces(
    records: Iterable[dict[str, Any]], lines: bool, around: tuple[str, str]
) -> Iterator[str]:
    """The text of a file, a record at a time."""
    first, last = around
    between = f"{first}\n"
    for record in records:
        text = json.dumps(record, ensure_ascii=False)
        yield f"{text}\n" if lines else between + text
        between = ",\n"
    if not lines:
        yield f"\n{last}\n" if between == ",\n" else f"{first}{last}\n"
