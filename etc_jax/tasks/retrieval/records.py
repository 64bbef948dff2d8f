"""Queries with the passages that answer them, by the names of their columns.

SQuAD's files are read too: its questions are queries, its paragraphs passages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from typing import Any, ClassVar

from etc_jax.datasets.fields import (
    Fields,
    anything,
    list_of,
    text as non_blank,
    wrong_type,
)
from etc_jax.datasets.json_objects import has_member
from etc_jax.datasets.records import Note, PassedOverError, reader
from etc_jax.datasets.tables import (
    TableOptions,
    digest_id,
    is_table,
    read_rows,
    record_id,
    row_of,
)
from etc_jax.tasks.squad import records as squad

_KEY_BYTES = 8


@dataclasses.dataclass(frozen=True)
class RetrievalOptions(TableOptions):
    """Queries and passages by the names of their columns, and how they are read.

    Attributes:
      query_column: with the query.
      passage_column: with a passage that answers it.
      negatives_column: with passages that do not though they seem to: a list in JSON
        lines, one text elsewhere; blank: there are none.
      negatives: of these, the first ones, that a query is compared with besides the
        passages of the other queries.
      query_length: tokens of the longest query, special ones too; what is beyond is
        cut off.
    """

    given_to: ClassVar[tuple[str, ...]] = (*TableOptions.given_to, "features")

    query_column: str = "query"
    passage_column: str = "passage"
    negatives_column: str = ""
    negatives: int = 1
    query_length: int = 64

    def __post_init__(self):
        super().__post_init__()
        if self.negatives < 1 or self.query_length < 3:
            raise ValueError(
                f"negatives is {self.negatives} and query_length {self.query_length}; "
                "expected 1 and 3, or more"
            )

    @property
    def num_negatives(self) -> int:
        """Of each query."""
        return self.negatives if self.negatives_column else 0

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: inputs are the same whatever the columns of a file are called."""
        del sizes
        return {"negatives": self.num_negatives, "query_length": self.query_length}


OPTIONS = RetrievalOptions()


@dataclasses.dataclass(frozen=True)
class Record:
    """A query.

    Attributes:
      id: of the record.
      query: its text.
      passage: that answers it; None where none is known.
      negatives: passages that do not.
    """

    id: str
    query: str
    passage: str | None
    negatives: tuple[str, ...] = ()


def key_of(text: str) -> str:
    """The name of a passage, or of a query: equal texts have the same one."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:_KEY_BYTES].hex()


def release(
    path: str | os.PathLike, *, options: RetrievalOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`: files of SQuAD, and files with columns."""
    if is_table(path):
        return read_rows(path, options)
    return squad.release(path) if has_member(path, "data") else None


def parse(value: Any, note: Note, *, options: RetrievalOptions = OPTIONS) -> Record:
    """A record from a row, from a JSON object with the same names, or of SQuAD's form.

    Args:
      value: a row, or a question of SQuAD with the `context` of its paragraph.
      note: see `tables.row_of`.
      options: names of the columns.

    Raises:
      BadRecordError: if it cannot be used; PassedOverError for a question of SQuAD 2.0
        that its paragraph does not answer.
    """
    if isinstance(value, dict) and "context" in value:
        question = squad.parse(value, note)
        if question.answers == ():
            raise PassedOverError("question without an answer", repr(question.id))
        return Record(question.id, question.question, question.context)
    row = row_of(value, note)
    fields = Fields(row.values)
    query = fields.text(options.query_column)
    passage = fields.get(options.passage_column, anything, None)
    if passage is not None:
        passage = non_blank(passage, options.passage_column)
    name = row.name or digest_id([query, passage or ""])
    name = record_id(fields, name, options)
    return Record(name, query, passage, _negatives(fields, options))


def _values(
    path: str | os.PathLike, options: RetrievalOptions
) -> Iterator[tuple[int, Any]]:
    # What is no file of SQuAD is one with columns, or is told which ones there are.
    return release(path, options=options) or read_rows(path, options)


# The queries of CSV, TSV and JSON-lines files, or of SQuAD's, one at a time.
read = reader(parse, _values, OPTIONS)


def _negatives(fields: Fields, options: RetrievalOptions) -> tuple[str, ...]:
    column = options.negatives_column
    value = fields.get(column, anything, None) if column else None
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if not isinstance(value, list):
        raise wrong_type(value, column, "a list of passages, or one")
    return list_of(non_blank)(value, column)
