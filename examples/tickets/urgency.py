"""Does a customer need help at once? A data set of support tickets, one JSON a line.

    {"id": "t1", "text": "The printer is gone. I need help today.", "urgent": true}

Registered under the path of this module: `--task=tickets.urgency` wherever a command
takes a data set, `objective.name="tickets.urgency"` in a config.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from etc_jax.base import registry
from etc_jax.datasets.fields import FLAG, Fields
from etc_jax.datasets.json_lines import read_line_records
from etc_jax.datasets.records import Note, Problems
from etc_jax.tasks.classification import make_data_set

LABELS = ("can wait", "urgent")


@dataclasses.dataclass(frozen=True)
class Record:
    """A ticket.

    Attributes:
      id: of the ticket.
      text: what the customer wrote.
      label: one of `labels`; None where the file does not say.
      labels: all there are, in the order of their numbers.
      title, second: none, as there is one text.
    """

    id: str
    text: str
    label: str | None

    labels: ClassVar = LABELS
    title: ClassVar = ""
    second: ClassVar = None


def parse(value: Any, note: Note) -> Record:
    """A record from a JSON value.

    Raises:
      BadRecordError: if it cannot be used.
    """
    del note  # nothing is left out of a record
    fields = Fields(value)
    urgent = fields.get("urgent", FLAG, None)
    label = None if urgent is None else LABELS[urgent]
    return Record(fields.text("id"), fields.text("text"), label)


def read(
    paths: Sequence[str | os.PathLike], problems: Problems | None = None
) -> Iterator[Record]:
    """The tickets of some files; see `etc_jax.datasets.records.read_records`."""
    return read_line_records(paths, parse, problems)


DATA_SET = registry.register("data_set", "tickets.urgency")(
    make_data_set(
        "tickets.urgency",
        labels=LABELS,
        read=read,
        parse=parse,
        metric="f1",
        positive="urgent",
        question="Is this ticket urgent?",
    )
)
