"""Rows of one's own files as texts with labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import Fields, anything, wrong_type
from etc_jax.datasets.records import Note, Problems, RefusedError, reader
from etc_jax.datasets.tables import (
    Row,
    TableOptions,
    digest_id,
    is_json_value,
    read_rows,
    record_id,
    row_of,
)
from etc_jax.tasks.classification.forms import LABEL_SETS, ONE_LABEL

_SHOWN_LABELS = 30
# A column with more values holds something else, such as texts.
_MOST_LABELS = 1000


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(TableOptions):
    """Texts and labels by the names of their columns.

    Attributes:
      text_column: with the text.
      second_column: with another text that is read after it; blank: there is none.
      label_column: with the label; of several, a list in JSON lines, and one text
        elsewhere.
      labels: all there are, in the order of the model's outputs; by default those of
        the files to learn from, sorted.
      multi_label: a text has any number of labels.
      label_separator: between the labels of a text, where they are no list.
    """

    text_column: str = "text"
    second_column: str = ""
    label_column: str = "label"
    labels: tuple[str, ...] = ()
    multi_label: bool = False
    label_separator: str = ","

    def __post_init__(self):
        super().__post_init__()
        # JSON has lists.
        object.__setattr__(self, "labels", tuple(x.strip() for x in self.labels))
        different = len({*self.labels} - {""})
        if self.labels and different < max(len(self.labels), self.least):
            raise ValueError(
                f"labels is {_shown(self.labels)}; expected {self.least} or more, each "
                "once and not blank"
            )
        for name in ("text_column", "label_column", "label_separator"):
            if not getattr(self, name):
                raise ValueError(f"{name} is blank; expected a text")

    @property
    def least(self) -> int:
        """Labels that there must be for a choice."""
        return 1 if self.multi_label else 2

    def completed(self, paths: Sequence[str | os.PathLike]) -> Self:
        """With the labels of the files, which must be among those that are given.

        Raises:
          ValueError: if a label is not, or too few are found, or too many.
          OSError: if a file cannot be read.
        """
        labels = labels_in(paths, self)
        return self if self.labels else dataclasses.replace(self, labels=labels)

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: inputs are the same whatever the columns of a file are called."""
        del sizes
        return {
            "labels": self.labels,
            "multi_label": self.multi_label,
            "two_texts": bool(self.second_column),
        }

    def task_fields(self) -> dict[str, Any]:
        """The classes, and how outputs are read."""
        fields = LABEL_SETS if self.multi_label else ONE_LABEL
        return {"classes": self.labels, **fields}

    def problem(self, objective: Any) -> str | None:
        """A model needs the labels, which a cache of `etc-jax prepare` has."""
        del objective
        if self.labels:
            return None
        return (
            "the labels are not known; set data.input_options to what etc-jax prepare "
            "says at its end"
        )


OPTIONS = ClassificationOptions()


@dataclasses.dataclass(frozen=True)
class Record:
    """A text with its label.

    Attributes:
      id: of the record.
      text: that is not blank.
      second: another one; None without one.
      label: one of `labels`, or a tuple of some of them in their order; None without.
      labels: all there are, in the order of their numbers; () before they are known.
      title: none.
    """

    id: str
    text: str
    second: str | None
    label: str | tuple[str, ...] | None
    labels: tuple[str, ...]

    title: ClassVar = ""


def release(
    path: str, *, options: ClassificationOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`: files whose ending tells that they have columns."""
    return None if is_json_value(path) else read_rows(path, options)


def parse(
    value: Any, note: Note, *, options: ClassificationOptions = OPTIONS
) -> Record:
    """A record from a row, or from a JSON object with the same names.

    Args:
      value: of one column the text; a record to be answered needs no label.
      note: see `tables.row_of`.
      options: see `read`.

    Raises:
      BadRecordError: if it cannot be used; RefusedError if its label is none of those
        that are known.
    """
    row = row_of(value, note)
    fields = Fields(row.values)
    text = fields.text(options.text_column)
    second = fields.text(options.second_column) if options.second_column else None
    name = row.name or digest_id([text, second or ""])
    name = record_id(fields, name, options)
    label = _label(fields, options)
    several = label if isinstance(label, tuple) else (label,)
    if options.labels and label is not None:
        for unknown in sorted({*several} - {*options.labels}):
            raise RefusedError(
                "unknown label",
                f"{name!r} has the label {unknown!r:.60}, which is none of the known "
                f"ones: {_shown(options.labels)}",
            )
    return Record(name, text, second, label, options.labels)


# The texts of CSV, TSV and JSON-lines files, one at a time.
read = reader(parse, read_rows, OPTIONS)


def labels_in(
    paths: Sequence[str | os.PathLike], options: ClassificationOptions
) -> tuple[str, ...]:
    """The labels of some files, sorted.

    Raises:
      ValueError: if a label is none of those that the options give, or there are too
        few or too many to be chosen from.
      OSError: if a file cannot be read.
    """
    problems, labels = Problems(), set()
    for record in read(paths, problems, options=options):
        label = record.label
        labels |= {*label} if isinstance(label, tuple) else {label} - {None}
        if len(labels) > _MOST_LABELS and not options.labels:
            raise ValueError(
                f"column {options.label_column!r} has more than {_MOST_LABELS} labels, "
                f"such as {_shown(sorted(labels)[:3])}; name another with "
                "label_column, or give all labels"
            )
    if problems.refused is not None:
        raise problems.refused
    if len(labels) < options.least and not options.labels:
        raise ValueError(
            f"column {options.label_column!r} has {len(labels)} labels, expected "
            f"{options.least} or more; columns of the first file: "
            f"{_columns(paths[0], options)}; {problems.report()}"
        )
    return tuple(sorted(labels))


def _columns(path: str | os.PathLike, options: ClassificationOptions) -> str:
    try:
        rows = (row for _, row in read_rows(path, options) if isinstance(row, Row))
        first = next(rows, Row({}, ""))
    except BadRecordError:  # is said in the report of the problems
        return "none"
    return ", ".join(map(repr, first.values)) if isinstance(first.values, dict) else ""


def _label(
    fields: Fields, options: ClassificationOptions
) -> str | tuple[str, ...] | None:
    column = options.label_column
    value = fields.get(column, anything, None)
    if not options.multi_label:
        return None if value is None else _name(value, column) or None
    if value is None:
        return None
    if isinstance(value, str):
        value = value.split(options.label_separator)
    if not isinstance(value, list):
        raise wrong_type(value, column, "a list of labels, or a text of them")
    names = {_name(x, column) for x in value} - {""}
    order = {x: i for i, x in enumerate(options.labels)}
    return tuple(sorted(names, key=lambda x: (order.get(x, -1), x)))


def _name(value: Any, column: str) -> str:
    """A label as text, without space around it; true, false and numbers by name."""
    if isinstance(value, bool):
        return str(value).lower()
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise wrong_type(value, column, "a label: a string or a whole number")
    return value.strip()


def _shown(labels: Sequence[str]) -> str:
    more = ", ..." if len(labels) > _SHOWN_LABELS else ""
    return ", ".join(f"{x!r:.40}" for x in labels[:_SHOWN_LABELS]) + more
