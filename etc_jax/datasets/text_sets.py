"""Data sets whose records are read as text and answered by a text: a template.

    DATA_SET = register(
        text_data_set(
            "qmsum", release=release, measure="rouge", sizes=SIZES, prefix="Query"
        )
    )

All such data sets have one record, that of `datasets.pairs`: `input`, `target`, which
may be several right texts, `prefix` and `id`. A data set says how its official files
become such records, and which metric they are scored by; JSON lines of such records
are read besides.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets import pairs
from etc_jax.datasets.explained import Wording
from etc_jax.datasets.fields import Fields
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.pairs import Pair, PairOptions, TextOptions
from etc_jax.datasets.records import Note, Problems, read_records
from etc_jax.datasets.task import DataSet
from etc_jax.datasets.text_converter import WORDING, make_text_converter
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring import texts

T = TypeVar("T")

# From an official file to (number from 1, record as JSON, or a BadRecordError in its
# place), neighbours of one id being one record; None for a file of another form. It
# takes `options=` too where options are given to it.
ReleaseFn = Callable[..., Iterator[tuple[int, Any]] | None]

_WHY = "a text is to be written, and models that read inputs so only choose"
_ONLY_WRITTEN = {"structured": _WHY, "sequence": _WHY}
_OPTIONS = TextOptions()
# Those of SQuAD come together.
_TOGETHER = ("exact_match", "f1")


def text_data_set(
    name: str,
    *,
    measure: str,
    sizes: TextToTextSizes,
    release: ReleaseFn | None = None,
    prefix: str = "",
    between: str = " ",
    options: PairOptions = _OPTIONS,
    wording: Wording | None = None,
    **fields: Any,
) -> DataSet:
    """A data set of text to text.

    Args:
      name: of the data set.
      measure: one of `scoring.texts.METRICS`.
      sizes: lengths of the paper's inputs.
      release: of official files; None: there are JSON lines alone. It takes the options
        whose `given_to` has "read" and "release".
      prefix: what a page calls the text that stands before the input, such as a
        question; "" if there is none.
      between: what stands between it and the input where they are one text.
      options: how inputs are made.
      wording: for readers; None: by `prefix`.
      **fields: others of the `DataSet`, in place of those of the template. Records are
        read with a `parse` that is among them.
    """
    if wording is None:
        wording = (
            dataclasses.replace(WORDING, question=prefix, headed_by_id=False)
            if prefix
            else WORDING
        )
    parse = fields.get("parse") or functools.partial(pairs.parse, between=between)
    usual = {
        "read": functools.partial(_read, parse=parse, release=release),
        "parse": parse,
        "release": functools.partial(_files, release=release),
    }
    converter = make_text_converter(name, sizes=sizes, options=options, wording=wording)
    usual |= {"official": dict, "gold": _gold, **measured(measure)}
    return DataSet(
        name=name,
        no_answer="",
        converters={"text_to_text": converter},
        absent=_ONLY_WRITTEN,
        **{**usual, **fields},
    )


def measured(measure: str) -> dict[str, Any]:
    """The fields of a `DataSet` that score texts by one of `scoring.texts.METRICS`.

    Raises:
      ValueError: if there is none such.
    """
    names = _TOGETHER if measure in _TOGETHER else (measure,)
    score = texts.scorer(*names)
    metric = texts.METRICS[measure]
    unread = texts.unread_gold if metric.of_all else None
    return {"metric": metric.headline, "score": score, "unread_gold": unread}


def _gold(record: Pair) -> Mapping[str, Any] | None:
    if record.references is None:
        return None
    return {"id": record.id, "references": record.references}


def _read(
    paths: Sequence[str | os.PathLike],
    problems: Problems | None = None,
    *,
    parse: Callable[[Any, Note], Pair],
    **how: Any,
) -> Iterator[Pair]:
    """See `DataSet.read`; `how` is that of `_files`."""
    return read_records(paths, parse, problems, functools.partial(_records, **how))


def _files(
    path: str | os.PathLike, *, release: ReleaseFn | None, **options: Any
) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`."""
    values = None if release is None else release(path, **options)
    if values is None and has_objects(path):
        values = read_lines(path)
    return None if values is None else pairs.joined_references(values)


def _records(path: str | os.PathLike, **how: Any) -> Iterator[tuple[int, Any]]:
    values = _files(path, **how)
    # Files of another ending have a record a line too.
    return pairs.joined_references(read_lines(path)) if values is None else values


# --- official files -------------------------------------------------------------------


def of_lines(
    path: str | os.PathLike,
    marked_by: str,
    records_of: Callable[[Fields], Iterator[Any]],
) -> Iterator[tuple[int, Any]] | None:
    """The release of files with a JSON object a line, each of which has some records.

    Args:
      path: of a file.
      marked_by: a field that objects of the release have, and records have not.
      records_of: the fields of an object -> its records. It raises BadRecordError where
        the rest cannot be used; of one record it gives the error in its place, as
        `each_by_itself` does.

    Returns:
      See `ReleaseFn`; None if the first object of the file has no such field.
    """
    if not lines_have(path, marked_by):
        return None
    return unfolded(read_lines(path), records_of)


def lines_have(path: str | os.PathLike, field: str) -> bool:
    """Whether the first line of a file that is not blank is an object with a field."""
    first = next((x for _, x in read_lines(path)), None)
    return isinstance(first, dict) and field in first


def converted(
    values: Iterable[tuple[int, T]], record_of: Callable[[T], dict[str, Any]]
) -> Iterator[tuple[int, Any]]:
    """(number, record) of numbered values with a record each.

    Args:
      values: (number, value, or a BadRecordError in its place).
      record_of: value -> record. It raises BadRecordError for what cannot be used,
        which then stands in its place.
    """
    for number, value in values:
        try:
            if isinstance(value, BadRecordError):
                raise value
            yield number, record_of(value)
        except BadRecordError as error:
            yield number, error


def unfolded(
    values: Iterable[tuple[int, Any]],
    records_of: Callable[[Fields], Iterator[Any]],
) -> Iterator[tuple[int, Any]]:
    """(number, record) of each record of numbered values; see `of_lines`."""
    for number, value in values:
        try:
            if isinstance(value, BadRecordError):
                raise value
            for record in records_of(Fields(value)):
                yield number, record
        except BadRecordError as error:
            yield number, error


def each_by_itself(
    values: Iterable[T], record_of: Callable[[T], dict[str, Any]]
) -> Iterator[dict[str, Any] | BadRecordError]:
    """The record of each value; of one that cannot be used, the error in its place.

    Args:
      values: such as the questions about a document.
      record_of: value -> record. It raises BadRecordError.
    """
    for value in values:
        try:
            yield record_of(value)
        except BadRecordError as error:
            yield error
