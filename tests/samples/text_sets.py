"""A row for each data set of text to text: official files, and the records in them.

A new one adds a row, and `tests/datasets/text_sets_test.py` walks it.
"""

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from multihop_samples import write_json
from natural_questions_samples import write_lines


class TextSet(NamedTuple):
    """What tests have of a data set.

    Attributes:
      write: folder -> an official file of two records or more, the first of them with
        several right texts if the release has such. No ROUGE-2 is above 0 of a
        text of one word.
      records: those in it, as JSON lines have them.
      options: with which they are read.
      package: that its score needs; None for none.
    """

    write: Callable[[pathlib.Path], Any]
    records: Sequence[dict[str, Any]]
    options: dict[str, Any] = {}
    package: str | None = None


def in_lines(*values: Any, name: str = "dev.jsonl.gz"):
    """A JSON value a line."""
    return lambda folder: write_lines(folder / name, values)


def in_one(value: Any, name: str = "dev.json"):
    """One JSON value."""
    return lambda folder: write_json(folder, value, name)


_MILL = {"id": "a", "input": "The mill stands in Ton.", "target": ["in Ton", "at Ton"]}
_FROG = {"id": "b", "input": "The frog sat by the pond.", "target": "the pond"}

TEXT_SETS = {
    "text_to_text": TextSet(
        in_lines(
            {**_MILL, "target": "in Ton"},
            {**_MILL, "target": "at Ton"},
            _FROG,
        ),
        [_MILL, _FROG],
        {"measure": "rouge"},
        package="rouge_score",
    ),
}


def lines_of(records: Sequence[dict[str, Any]]) -> str:
    """Records as JSON lines."""
    return "".join(f"{json.dumps(record)}\n" for record in records)
