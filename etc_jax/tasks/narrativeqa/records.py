"""NarrativeQA's files: a table of questions, a table of documents, and their texts.

A record is named by its document and its number among the questions of the document.
Questions of one document stand together, so that one story is in memory.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets import pairs
from etc_jax.datasets.fields import STRING, Fields, list_of
from etc_jax.datasets.pairs import Pair, TextOptions
from etc_jax.datasets.records import Note
from etc_jax.datasets.tables import TableOptions, is_delimited, read_rows
from etc_jax.tasks.narrativeqa import stories

SETS = ("train", "valid", "test")
DOCUMENTS = "documents.csv"
SUMMARIES = "third_party/wikipedia/summaries.csv"
STORIES = "tmp"


@dataclasses.dataclass(frozen=True)
class NarrativeOptions(TextOptions):
    """What is read, how texts become tokens, and which answers are learnt.

    Attributes:
      text: story, the whole book or script, or summary, the plot in Wikipedia.
    """

    given_to: ClassVar[tuple[str, ...]] = (*TextOptions.given_to, "read", "release")

    text: Literal["story", "summary"] = "story"


OPTIONS = NarrativeOptions()


def parse(value: Any, note: Note) -> Pair:
    """A record from a JSON value.

    Args:
      value: see `pairs`; with `lacking`, marks that are not in a story.
      note: called for each of them.

    Raises:
      BadRecordError: if it cannot be used.
    """
    pair = pairs.parse(value, note, between="\n\n")
    for mark in Fields(value).get("lacking", list_of(STRING), ()):
        note(
            "mark not in the story", f"{mark} of {pair.id!r}: nothing is cut off there"
        )
    return pair


def companions(file: str | os.PathLike) -> list[pathlib.Path]:
    """The files and the folder that are read beside a table of questions."""
    if not is_delimited(file):
        return []
    folder = pathlib.Path(file).parent
    paths = [folder / name for name in (DOCUMENTS, SUMMARIES, STORIES)]
    return [path for path in paths if path.exists()]


def release(
    path: str | os.PathLike, *, options: NarrativeOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """See `text_sets.ReleaseFn`: of a table of questions."""
    return _questions(path, options) if is_delimited(path) else None


def _questions(
    path: str | os.PathLike, options: NarrativeOptions
) -> Iterator[tuple[int, Any]]:
    folder = pathlib.Path(path).parent
    of_document = functools.lru_cache(maxsize=1)(_texts(folder, options.text))
    asked: collections.Counter[str] = collections.Counter()
    only = None
    for number, row in read_rows(path, TableOptions()):
        try:
            if isinstance(row, BadRecordError):
                raise row
            fields = Fields(row.values)
            name = fields.text("document_id")
            record = {"id": f"{name}:{asked[name]}"}
            asked[name] += 1
            only = _one_set(fields, only, path)
            record["prefix"] = fields.text("question")
            record["target"] = [fields.text("answer1"), fields.text("answer2")]
            yield number, {**record, **of_document(name)}
        except BadRecordError as error:
            if error.kind == "several splits":
                raise
            yield number, error


def _one_set(fields: Fields, before: str | None, path: str | os.PathLike) -> str:
    """The set of a row, which is that of the rows before."""
    name = fields.text("set")
    if before not in (None, name):
        raise BadRecordError(
            "several splits",
            f"{path} has questions of the sets {before!r} and {name!r}; divide it by "
            f"python -m etc_jax.tasks.narrativeqa.split --out=FOLDER {path}",
        )
    return name


def _texts(folder: pathlib.Path, text: str) -> Any:
    """A document's id -> the fields of a record that are its text's.

    Raises:
      BadRecordError: if a table is damaged.
      OSError: if there is none.
    """
    if text == "summary":
        summaries = _table(folder / SUMMARIES, "summary")
        return functools.partial(_summary, summaries=summaries)
    marks = ("story_start", "story_end")
    documents = _table(folder / DOCUMENTS, *marks)
    return functools.partial(_story, folder=folder / STORIES, documents=documents)


def _table(path: pathlib.Path, *columns: str) -> dict[str, tuple[str, ...]]:
    """Some columns of a table of all 1,572 documents, by their ids."""
    cells = {}
    for number, row in read_rows(path, TableOptions()):
        try:
            if isinstance(row, BadRecordError):
                raise row
            fields = Fields(row.values)
            of_row = tuple(fields.text(column) for column in columns)
            cells[fields.text("document_id")] = of_row
        except BadRecordError as error:
            raise error.at(f"{path}, record {number}") from error
    return cells


def _of(name: str, cells: dict[str, tuple[str, ...]], table: str) -> tuple[str, ...]:
    if name not in cells:
        raise BadRecordError("unknown document", f"{name!r} is not in {table}")
    return cells[name]


def _summary(name: str, *, summaries: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    [summary] = _of(name, summaries, SUMMARIES)
    return {"input": summary.strip()}


def _story(
    name: str, *, folder: pathlib.Path, documents: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    start, end = _of(name, documents, DOCUMENTS)
    path = folder / f"{name}.content"
    if not path.is_file():
        raise BadRecordError(
            "no story",
            f"there is no {path}; fetch the stories by the script of the release, or "
            "read summaries, by --text=summary",
        )
    story = stories.read(path, start, end)
    lacking = {"lacking": story.lacking} if story.lacking else {}
    return {"input": story.text, **lacking}
