"""What the command lines are told about a data set."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tasks.multihop import Sizes, Window
from tasks.records import Note, Problems

NAMES = ("hotpotqa", "wikihop")


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set: `tasks.NAME.TASK`.

    Attributes:
      name: of the data set, and of its objective in a config.
      sizes: lengths of the paper's inputs.
      read: (paths, problems) -> records of official files; see `records.read_records`.
      parse: (JSON value, note) -> one record.
      features: (record, tokenizer, sizes, official_quirks=False) -> its windows.
    """

    name: str
    sizes: Sizes
    read: Callable[[Sequence[str | os.PathLike], Problems | None], Iterator[Any]]
    parse: Callable[[Any, Note], Any]
    features: Callable[..., list[Window]]


def find(name: str) -> Task:
    """The data set of a name.

    Raises:
      ValueError: naming those there are.
    """
    if name not in NAMES:
        raise ValueError(f"no task {name!r}; there are: {', '.join(NAMES)}")
    return importlib.import_module(f"tasks.{name}").TASK
