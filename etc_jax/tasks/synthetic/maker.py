"""What makes invented items of a data set, and the form of their files."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
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
      key: field that has a record's name, where a file is one object with a record a
        member; "": there is none.
      splits: those of a release that is a folder of files; (): it is one file.
      write_split: (folder, records, split=) -> what was written, of such a release;
        a file or folder that is there is not replaced.
      data_set: that has such records; None: the one of the same name.
      documents: record -> the texts that it is about, to pre-train on; None: its maker
        does not give them.
    """

    records: Callable[..., Iterable[Any]]
    sizes: type
    lines: bool = False
    around: tuple[str, str] = ("[", "]")
    key: str = ""
    splits: tuple[str, ...] = ()
    write_split: Callable[..., pathlib.Path] | None = None
    data_set: str | None = None
    documents: Callable[[Any], Sequence[str]] | None = None

    def write(self, path: str | os.PathLike, records: Iterable[dict[str, Any]]) -> None:
        """Writes a file of records; see `write_records`."""
        how = {"lines": self.lines, "around": self.around, "key": self.key}
        write_records(path, records, **how)

    def write_texts(
        self, path: str | os.PathLike, records: Iterable[dict[str, Any]]
    ) -> None:
        """Writes what `data.source=jsonl` reads: a record's documents as one text.

        Questions and answers are left out: how such texts go on is learnt, no task.
        """
        # A blank line between paragraphs.
        texts = ("\n\n".join(self.documents(record)) for record in records)
        write_records(path, ({"text": text} for text in texts), lines=True)


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
    key: str = "",
) -> None:
    """Writes a file of records, which appears whole or not at all.

    Args:
      path: of the file; gzipped if it is named `.gz`.
      records: JSON objects.
      lines: one object a line, and nothing else; otherwise one JSON array.
      around: what stands before and after the records of an array.
      key: see `Maker`.

    Raises:
      OSError: if it cannot be written.
    """
    with whole_text(path) as handle:
        texts = (_text(record, key) for record in records)
        for text in _pieces(texts, lines, around):
            handle.write(text)


def _text(record: dict[str, Any], key: str) -> str:
    """A record as an element of an array, or as a member of an object."""
    if not key:
        return json.dumps(record, ensure_ascii=False)
    value = {name: x for name, x in record.items() if name != key}
    return f"{json.dumps(record[key])}: {json.dumps(value, ensure_ascii=False)}"


def _pieces(
    texts: Iterable[str], lines: bool, around: tuple[str, str]
) -> Iterator[str]:
    """The text of a file, a record at a time."""
    first, last = around
    between = f"{first}\n"
    for text in texts:
        yield f"{text}\n" if lines else between + text
        between = ",\n"
    if not lines:
        yield f"\n{last}\n" if between == ",\n" else f"{first}{last}\n"
