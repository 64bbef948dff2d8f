"""Documents from text, JSONL and Parquet files, read as a stream.

    source = read_documents(["books/*.jsonl.gz"], text_field="text", name_field="id")
    for document in source:
        ...
    print(source.report())

Bytes that are no UTF-8 and NUL characters become U+FFFD and are counted; a file with
too many of them is an error.
"""

# One file: caches remember READER_VERSION, which counts the changes of all of it.

from __future__ import annotations

import dataclasses
import glob
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etc_jax.base import copies, stores
from etc_jax.base.rules import choice
from etc_jax.data.arrow_files import files_of, is_arrow, read_rows
from etc_jax.data.digests import of_files
from etc_jax.data.input_files import (
    VARIABLE,
    BadRecordError,
    lines,
    max_record_bytes,
    open_input,
)
from etc_jax.data.text.corpus import Document

READER_VERSION = "1"  # raise it with every change to how this file reads a source
FORMATS = ("auto", "text", "jsonl")
ROWS = "rows"  # of Parquet and Arrow files, known by their endings
BORDERS = ("file", "line")
SUFFIXES = {
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
}
# A text file that is one document may have so many times the characters of a record.
DOCUMENT_RECORDS = 4
_LINE_CHARS = 64
_NAMED = 3

_REPLACEMENT = "\ufffd"
# JSON may spell both as escapes; a lone surrogate is legal in no encoding of text.
_ILLEGIBLE = re.compile("[\0\ud800-\udfff]")


@dataclasses.dataclass
class FileCounts:
    """What was found in one file.

    Attributes:
      documents: documents with text.
      empty: documents (rows, lines, files) without any.
      chars: all characters that were read, those between the texts included.
      replaced_chars: how many of them stand for what was NUL or no UTF-8.
    """

    documents: int = 0
    empty: int = 0
    chars: int = 0
    replaced_chars: int = 0


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file of a source; its label is how it is named in documents and messages."""

    path: pathlib.Path
    label: str
    format: str


@dataclasses.dataclass(eq=False)
class TextSource:
    """An iterable of `Document`; each iteration reads the files anew.

    Files without any text at all are a ValueError at the end of an iteration.

    Attributes:
      files: in the order in which they are read.
      counts: `{label: FileCounts}` of the iteration begun last, as far as it came.
    """

    files: tuple[TextFile, ...]
    name: str
    text_field: str
    name_field: str | None
    document_border: str
    max_replaced_share: float
    counts: dict[str, FileCounts] = dataclasses.field(default_factory=dict)

    def __iter__(self) -> Iterator[Document]:
        counts = self.counts = {}
        for file in self.files:
            file_counts = counts[file.label] = FileCounts()
            yield from self._documents(file, file_counts)
        if not any(file_counts.documents for file_counts in counts.values()):
            paths = [str(file.path) for file in self.files[:_NAMED]]
            more = (
                f" and {len(self.files) - _NAMED} more" if self.files[_NAMED:] else ""
            )
            raise ValueError(
                f"there is no text in {', '.join(paths)}{more}, only white space; give "
                "files with text"
            )

    def describe(self) -> dict[str, Any]:
        """All that the documents depend on, for fingerprints; reads every file whole.

        A file is known by its label, size and SHA-256: where it lies and when it was
        written do not matter.
        """
        digests = of_files({f.label: f.path for f in self.files})
        return {
            "reader": READER_VERSION,
            "text_field": self.text_field,
            "name_field": self.name_field,
            "document_border": self.document_border,
            "files": [
                [f.label, f.format, f.path.stat().st_size, digests[f.label]]
                for f in self.files
            ],
        }

    def report(self) -> str:
        """Documents, characters and replaced characters by file, a line each."""
        lines = [_count_line(label, counts) for label, counts in self.counts.items()]
        columns = zip(*map(dataclasses.astuple, self.counts.values()), strict=True)
        total = FileCounts(*map(sum, columns))
        return "\n".join([*lines, _count_line("total", total)])

    def _documents(self, file: TextFile, counts: FileCounts) -> Iterator[Document]:
        if file.format == ROWS:
            rows = _arrow_rows(file, counts, self.text_field)
            documents = _of_rows(file, rows, counts, self.text_field, self.name_field)
            yield from self._counted(documents, counts)
            return
        numbered = _lines(file, counts, self.max_replaced_share)
        if file.format == "jsonl":
            rows = _json_rows(file, numbered)
            documents = _of_rows(file, rows, counts, self.text_field, self.name_field)
        elif self.document_border == "line":
            documents = (
                (f"{file.label}:{n}", paragraphs_of([text]), bad)
                for n, text, bad in numbered
            )
        else:
            documents = _whole(file, numbered)
        yield from self._counted(documents, counts)

    def _counted(self, documents, counts: FileCounts) -> Iterator[Document]:
        for name, paragraphs, replaced in documents:
            if paragraphs:
                counts.documents += 1
                yield Document(name, paragraphs, replaced)
            else:
                counts.empty += 1


def read_documents(
    patterns: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    format: str = "auto",
    text_field: str = "text",
    name_field: str | None = None,
    document_border: str = "file",
    name: str | None = None,
    max_replaced_share: float = 0.001,
) -> TextSource:
    """Text, JSONL or Parquet files as a source of documents; nothing is read yet.

    Blank lines separate paragraphs. Inside a paragraph, each line is stripped and line
    breaks become one space. Documents are named "folder/path", "folder/path:line" for
    one of several in a file, or "folder/value" of `name_field`. The folder is the one
    before the first part of a pattern with a wildcard (of a plain path, the file's
    own), the path begins there; the ending ".gz" does not count.

    Args:
      patterns: paths or globs ("**" goes into folders). Files are read in the order of
        patterns, those of one pattern in the order of paths, each once.
      format: "text", "jsonl", or "auto": by the ending (.txt .text .md, .jsonl
        .ndjson); each may be followed by .gz. Parquet and Arrow files, and folders of
        them (`data.arrow_files`), are read like JSONL.
      text_field: of a JSONL row, a string.
      name_field: of a JSONL row, a string or integer that names its document.
      document_border: of text files: "file" (a file is a document, held in memory) or
        "line" (a line is one).
      name: stands in document names instead of the folder's own name.
      max_replaced_share: a file with a larger share of characters that are NUL or no
        UTF-8 is an error.

    Raises:
      FileNotFoundError: if a pattern matches no file.
      ValueError: if an option or a format is unknown or two files would have one
        name; while reading, if a row is not as described, or a file is no
        whole gzip file or not UTF-8.
    """
    choice(FORMATS).check(format=format)
    choice(BORDERS).check(document_border=document_border)
    if isinstance(patterns, str | os.PathLike):
        patterns = [patterns]
    labels = {}  # of each path, the first pattern that matches names it
    for pattern in patterns:
        base, paths = _matches(os.fspath(pattern))
        for path in paths:
            labels.setdefault(path, _label(path, base, name))
    if not labels:
        raise ValueError("no patterns given; name the files to read")
    _check_unique(labels)
    files = tuple(
        TextFile(path, label, _format_of(path, format))
        for path, label in labels.items()
    )
    return TextSource(
        files=files,
        name=name or files[0].label.partition("/")[0],
        text_field=text_field,
        name_field=name_field,
        document_border=document_border,
        max_replaced_share=max_replaced_share,
    )


def equal_files(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Labels of the files of `second` whose bytes are those of a file of `first`.

    Args:
      first: what `TextSource.describe` gives.
      second: the same of another source.
    """
    hashes = {sha256 for *_, sha256 in first["files"]}
    return [label for label, *_, sha256 in second["files"] if sha256 in hashes]


def _matches(pattern: str) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """(folder where the wildcards begin, files in order)."""
    if wrong := stores.problem(pattern):
        raise ValueError(f"the path {wrong}")
    pattern = os.path.expanduser(copies.local(pattern))
    whole = pathlib.Path(os.path.abspath(pattern))
    if whole.is_dir() and is_arrow(whole):
        return whole, files_of(whole)
    if whole.is_dir():
        raise FileNotFoundError(
            f"{whole} is a folder; give the files in it, such as {whole}/*.txt"
        )
    if whole.exists():  # taken as it is: its name may hold brackets
        return whole.parent, [whole]
    parts = whole.parts
    # The folder before the first wildcard names the documents.
    fixed = list(itertools.takewhile(lambda p: not glob.has_magic(p), parts[:-1]))
    base, rest = pathlib.Path(*fixed), os.path.join(*parts[len(fixed) :])
    matches = glob.glob(rest, root_dir=base, recursive=True)
    paths = [path for path in map(base.joinpath, sorted(matches)) if path.is_file()]
    if not paths:
        state = "which exists" if base.is_dir() else "which does not exist"
        raise FileNotFoundError(
            f"no file matches {rest!r} in folder {base}, {state}; correct the pattern"
        )
    return base, paths


def _label(path: pathlib.Path, base: pathlib.Path, name: str | None) -> str:
    inner = path.relative_to(base).as_posix().removesuffix(".gz")
    return f"{name or base.name or 'files'}/{inner}"


def _check_unique(labels: dict[pathlib.Path, str]) -> None:
    seen: dict[str, pathlib.Path] = {}
    for path, label in labels.items():
        if label in seen:
            raise ValueError(
                f"{seen[label]} and {path} would both be named {label!r}; leave one "
                "out, or cover both by one pattern that begins above them"
            )
        seen[label] = path


def _format_of(path: pathlib.Path, format: str) -> str:
    if is_arrow(path):
        if format == "text":
            raise ValueError(f"{path} has rows with fields; read it as JSON lines")
        return ROWS
    if format != "auto":
        return format
    suffix = pathlib.PurePath(path.name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: the ending {suffix!r} does not tell the format, expected one of "
            f"{' '.join(SUFFIXES)}; give format='text' or format='jsonl'"
        )
    return SUFFIXES[suffix]


def _lines(
    file: TextFile, counts: FileCounts, max_share: float
) -> Iterator[tuple[int, str, int]]:
    """(number from 1, text, replaced characters) of each line."""
    try:
        with open_input(file.path) as handle:
            for number, raw in lines(handle):
                if isinstance(raw, BadRecordError):
                    raise raw
                text, replaced = _decode(raw)
                counts.chars += len(text)
                counts.replaced_chars += replaced
                yield number, text, replaced
    except BadRecordError as e:
        raise e.at(str(file.path)) from e
    if counts.replaced_chars > max_share * counts.chars:
        share = counts.replaced_chars / counts.chars
        raise ValueError(
            f"{file.path}: {counts.replaced_chars} of {counts.chars} characters "
            f"({share:.2%}) are NUL or no UTF-8, at most {max_share:.2%} may be; "
            "convert it to UTF-8, or leave it out if it is no text"
        )


def _decode(raw: bytes) -> tuple[str, int]:
    try:
        text, replaced = raw.decode(), 0
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
        # The text may have had the character itself.
        replaced = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode())
    return text.replace("\0", _REPLACEMENT), replaced + text.count("\0")


def _whole(file: TextFile, numbered) -> Iterator[tuple[str, tuple[str, ...], int]]:
    chars = replaced = 0
    most = DOCUMENT_RECORDS * max_record_bytes()

    def texts() -> Iterator[str]:
        nonlocal chars, replaced
        for _, text, bad in numbered:
            # An object in memory, however short the line.
            chars += max(len(text), _LINE_CHARS)
            replaced += bad
            if chars > most:
                raise BadRecordError(
                    "document too large",
                    f"{file.path} is one document of more than {most:,} characters, "
                    "which are held in memory; set document_border='line', cut it into "
                    f"files, or set {VARIABLE} in the environment",
                )
            yield text

    # Not the lines, which take many times the memory of their text.
    yield file.label, paragraphs_of(texts()), replaced


def _json_rows(file: TextFile, numbered) -> Iterator[tuple[int, dict[str, Any], int]]:
    """(number, object, replaced characters) of each line that is not blank."""
    for number, line, replaced in numbered:
        if line.strip():
            yield number, _parse_row(line, f"{file.path}:{number}"), replaced


def _arrow_rows(
    file: TextFile, counts: FileCounts, text_field: str
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The same of the rows of a Parquet or Arrow file."""
    for number, row in read_rows(file.path):
        if isinstance(row, BadRecordError):
            raise row.at(f"{file.path}:{number}")
        text = row.get(text_field)
        counts.chars += len(text) if isinstance(text, str) else 0
        yield number, row, 0


def _of_rows(
    file: TextFile,
    rows: Iterable[tuple[int, dict[str, Any], int]],
    counts: FileCounts,
    text_field: str,
    name_field: str | None,
) -> Iterator[tuple[str, tuple[str, ...], int]]:
    for number, row, replaced in rows:
        where = f"{file.path}:{number}"
        text = _field(row, text_field, str, "text_field", where)
        text, more = _ILLEGIBLE.subn(_REPLACEMENT, text)
        counts.replaced_chars += more
        label = f"{file.label}:{number}"
        if name_field is not None:
            value = _field(row, name_field, str | int, "name_field", where)
            value = _ILLEGIBLE.sub(_REPLACEMENT, str(value))
            label = f"{file.label.partition('/')[0]}/{value}"
        yield label, paragraphs_of(text.split("\n")), replaced + more


def _parse_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        why = "nested too deeply" if isinstance(e, RecursionError) else e
        raise ValueError(
            f"{where}: not JSON ({why}); expected an object a line, correct the line "
            "or set format"
        ) from e
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(row).__name__}")
    return row


def _field(row: dict[str, Any], field: str, kind, option: str, where: str):
    if field not in row:
        raise ValueError(
            f"{where}: no field {field!r}, there are {_some(row)}; set {option}"
        )
    if not isinstance(row[field], kind) or isinstance(row[field], bool):
        wanted = "a string" if kind is str else "a string or integer"
        raise ValueError(
            f"{where}: field {field!r} is {type(row[field]).__name__}, expected "
            f"{wanted}; correct the line or set {option}"
        )
    return row[field]


def _some(names: Iterable[str]) -> str:
    """The first of some names, each with its first characters."""
    shown = [f"{name!r:.40}" for name in itertools.islice(names, 9)]
    return ", ".join(shown) + (", ..." if len(shown) == 9 else "")


def paragraphs_of(lines: Iterable[str]) -> tuple[str, ...]:
    """Paragraphs of some lines: blank ones are between them; see `TextFiles`."""
    paragraphs, current = [], []
    for line in lines:
        if line := line.strip():
            current.append(line)
        elif current:
            paragraphs.append(" ".join(current))
            current = []
    if current:
        paragraphs.append(" ".join(current))
    return tuple(paragraphs)


def _count_line(label: str, counts: FileCounts) -> str:
    share = counts.replaced_chars / max(counts.chars, 1)
    return (
        f"{label}: {counts.documents} documents ({counts.empty} empty), "
        f"{counts.chars} chars, {counts.replaced_chars} replaced ({share:.4%})"
    )
