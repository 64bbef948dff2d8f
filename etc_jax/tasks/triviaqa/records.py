"""TriviaQA's official files (Joshi et al. 2017): questions, documents, answers.

A release is `qa/*.json`, one object with the questions in `Data`, and beside it the
texts, `evidence/wikipedia` and `evidence/web`. In the Wikipedia track a question is a
record with all of its documents; in the web track it is one with each of them. Of a
verified set, such as `qa/verified-web-dev.json`, what nobody has verified is passed
over, as by the official metric.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from etc_jax.data.input_files import BadRecordError, read_whole
from etc_jax.datasets.fields import FLAG, OBJECT, STRING, Fields, anything, objects
from etc_jax.datasets.json_objects import has_member, read_members
from etc_jax.datasets.records import Note, PassedOverError, Problems, read_records
from etc_jax.datasets.spans import Document
from etc_jax.scoring import triviaqa as scoring

WIKIPEDIA, WEB = "Wikipedia", "Web"

# Field of a question -> the folder that its files are in.
_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}


@dataclasses.dataclass(frozen=True)
class Record:
    """A question and what to read for it.

    Attributes:
      id: of the question; in the web track `question--file`.
      question: its text.
      documents: one or more, none of them blank; one in the web track.
      aliases: all names of the answer; None in test files.
    """

    id: str
    question: str
    documents: tuple[Document, ...]
    aliases: tuple[str, ...] | None


def read(
    paths: Sequence[str | os.PathLike],
    problems: Problems | None = None,
    *,
    evidence: str | os.PathLike | None = None,
) -> Iterator[Record]:
    """The records of files such as `qa/wikipedia-dev.json`, one at a time.

    A file is gone through twice: what track it is of may stand after the questions.

    Args:
      paths: one or more files.
      problems: where what is wrong is counted; None: a bad record is raised.
      evidence: folder with `wikipedia` and `web`; None: the one beside the folder that
        a file is in.

    Raises:
      BadRecordError: without `problems`, naming the file and the record.
      OSError: if a file cannot be read, or there is no such folder.
    """
    read_fn = functools.partial(_values, evidence=evidence)
    return read_records(paths, parse, problems, read_fn)


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """What `parse` takes of each question of an official file; see `Task.release`.

    None for another file, such as one of questions that have their texts in them.
    """
    return _values(path, None) if has_member(path, "Data") else None


def parse(value: Any, note: Note) -> Record:
    """A record from a JSON value.

    Args:
      value: a question as in `Data`, with `Documents`: objects of `Filename` and
        `Text`, or in place of a text the error that says why there is none.
      note: called with (kind, message) for a document that is left out.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name = fields.text("QuestionId")
    return Record(
        id=name,
        question=fields.text("Question"),
        documents=_documents(name, fields, note),
        aliases=_aliases(name, fields),
    )


def _documents(name: str, fields: Fields, note: Note) -> tuple[Document, ...]:
    listed = fields.get("Documents", objects)
    if not listed:
        raise BadRecordError("no document", f"{name!r} has none")
    documents: dict[str, Document] = {}
    faults: list[BadRecordError] = []
    for document in listed:
        file, text = document.text("Filename"), _text_of(document)
        if isinstance(text, BadRecordError):
            faults.append(text.at(repr(name)))
        elif file in documents:
            note("document twice", f"{name!r}, {file!r}")
        else:
            documents[file] = Document(file, text)
    if not documents:
        raise faults[0]
    for fault in faults:
        note(fault.kind, fault.message)
    return tuple(documents.values())


def _text_of(document: Fields) -> str | BadRecordError:
    """The text of a document, or why there is none."""
    text = document.get("Text", anything)
    if isinstance(text, BadRecordError):
        return text
    if not document.get("Text", STRING).strip():
        file = document.text("Filename")
        return BadRecordError("empty document", f"{file!r} is blank")
    return text


def _aliases(name: str, fields: Fields) -> tuple[str, ...] | None:
    if "Answer" not in fields:
        return None
    try:
        return tuple(scoring.answer_names(fields.get("Answer", OBJECT), repr(name)))
    except BadRecordError:
        raise
    except ValueError as e:
        raise BadRecordError("bad answer", str(e)) from e


# --- files ----------------------------------------------------------------------------


def _values(
    path: str | os.PathLike, evidence: str | os.PathLike | None
) -> Iterator[tuple[int, Any]]:
    """(number of the question, what `parse` takes) of each record of a file."""
    track, verified = _head(path)
    default = pathlib.Path(path).absolute().parent.parent / "evidence"
    folder = default if evidence is None else pathlib.Path(evidence)
    if not folder.is_dir():
        raise NotADirectoryError(
            f"no evidence for {os.fspath(path)}: there is no folder {folder}; unpack "
            "the release so that `evidence` is beside `qa`"
        )
    if track == WIKIPEDIA:
        split = _questions
    else:
        split = functools.partial(_pairs, verified=verified)
    questions = (value for name, value in read_members(path) if name == "Data")
    for number, question in enumerate(questions, start=1):
        try:
            if verified and not Fields(question).get(scoring.VERIFIED_QUESTION, FLAG):
                raise _not_verified(Fields(question).text("QuestionId"))
            for value in split(question, folder):
                yield number, value
        except BadRecordError as e:
            yield number, e


def _not_verified(name: str) -> PassedOverError:
    return PassedOverError("not verified", repr(name))


def _head(path: str | os.PathLike) -> tuple[str, bool]:
    """The domain of a file, and whether it is of a verified set.

    Raises:
      BadRecordError: if it is no release of a known one, with questions.
    """
    # Of the questions the name is enough.
    head = {k: None if k == "Data" else x for k, x in read_members(path)}
    name = os.fspath(path)
    if "Data" not in head:
        raise BadRecordError(
            "not a JSON array",
            f"{name}: no 'Data' with questions in it; give a file such as "
            "qa/wikipedia-dev.json",
        )
    if (track := head.get("Domain")) not in (WIKIPEDIA, WEB):
        raise BadRecordError(
            "unknown domain",
            f"{name}: 'Domain' is {track!r}, expected {WIKIPEDIA!r} or {WEB!r}",
        )
    verified = Fields(head).get("VerifiedEval", FLAG, False)
    return track, verified


def _questions(question: Any, folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The question with its documents: a record of the Wikipedia track."""
    documents = [_read(kind, file, folder) for kind, file, _ in _pages(question)]
    yield {**question, "Documents": documents}


def _pairs(question: Any, folder: pathlib.Path, verified: bool) -> Iterator[Any]:
    """The question with each of its documents: records of the web track."""
    name = Fields(question).text("QuestionId")
    pages = _pages(question)
    if not pages:
        raise BadRecordError("no document", f"{name!r} has none")
    seen = set()
    for kind, file, page in pages:
        pair = f"{name}--{file}"
        if verified and not page.get(scoring.VERIFIED_DOCUMENT, FLAG):
            yield _not_verified(pair)
        elif file in seen:
            # The official metric knows the pair by its name too, and so only once.
            yield PassedOverError("document twice", f"{name!r}, {file!r}")
        else:
            seen.add(file)
            documents = [_read(kind, file, folder)]
            yield {**question, "QuestionId": pair, "Documents": documents}


def _pages(question: Any) -> list[tuple[str, str, Fields]]:
    """(folder, name, value) of a question's documents, in the order of the metric."""
    fields = Fields(question)
    pages = [
        (folder, page)
        for field, folder in _FOLDERS.items()
        for page in fields.get(field, objects, [])
    ]
    return [(folder, page.text("Filename"), page) for folder, page in pages]


def _read(kind: str, file: str, folder: pathlib.Path) -> dict[str, Any]:
    """A document as `parse` takes it."""
    return {"Filename": file, "Text": _text(folder / kind, file)}


def _text(folder: pathlib.Path, file: str) -> str | BadRecordError:
    """The text of a file, or why there is none."""
    inner = pathlib.PurePosixPath(file)
    if inner.is_absolute() or ".." in inner.parts or not _is_name(file):
        return BadRecordError("wrong file name", f"{file!r} is not below {folder}")
    path = folder / inner
    try:
        return read_whole(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return BadRecordError(
            "missing evidence", f"no file {path}; unpack the evidence again"
        )
    except BadRecordError as e:
        return BadRecordError("broken evidence", f"{path}: {e}")


def _is_name(file: str) -> bool:
    """Whether a file system takes it as a path."""
    try:
        data = file.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return b"\0" not in data and max(map(len, data.split(b"/"))) < 256
