"""Hyperpartisan news (SemEval-2019 task 4, Kiesel et al. 2019): articles and truth.

`articles-NAME.xml` has the articles and `ground-truth-NAME.xml`, beside it, says which
of them are hyperpartisan. Articles as JSON lines, with `id`, `title`, `text` and
`label`, are read too; `etc_jax.tasks.hyperpartisan.split` writes such.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar
from xml.parsers.expat import errors as expat_errors

from etc_jax.data.input_files import (
    BadRecordError,
    max_record_bytes,
    open_input,
    too_large,
)
from etc_jax.datasets.fields import STRING, Fields, anything, shown
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.records import Note, reader

LABELS = ("false", "true")

# Label of each article by its id, or what is wrong with it.
Truth = dict[str, str | BadRecordError]

_NAME = re.compile(r"articles-(.+)\.xml(?:\.gz)?")
_XML_BYTES, _MOST_DEPTH = 1 << 16, 1000
_EXAMPLE = "articles-training-byarticle-20181122.xml"
_CUT_SHORT = [
    expat_errors.codes[message]
    for message in (
        expat_errors.XML_ERROR_NO_ELEMENTS,
        expat_errors.XML_ERROR_UNCLOSED_TOKEN,
        expat_errors.XML_ERROR_PARTIAL_CHAR,
        expat_errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
]


@dataclasses.dataclass(frozen=True)
class Record:
    """An article.

    Attributes:
      id: as the file spells it.
      title: of the article, which is no part of the text; may be blank.
      text: cleaned; see `clean`.
      label: "true" if it is hyperpartisan, "false" if not; None without truth.
      labels: all there are, in the order of their numbers.
      second: none.
    """

    id: str
    title: str
    text: str
    label: str | None

    labels: ClassVar = LABELS
    second: ClassVar = None


def parse(value: Any, note: Note) -> Record:
    """A record from a JSON value.

    Args:
      value: `id`, and `text` as it is in the XML; `title` and `label`, "true" or
        "false", if there is one.
      note: not called: articles are used as a whole or not at all.

    Raises:
      BadRecordError: if it cannot be used.
    """
    del note
    fields = Fields(value)
    name = fields.text("id")
    text = clean(fields.get("text", STRING))
    if not text:
        raise BadRecordError("empty article", f"{name!r} has no text left")
    label = fields.get("label", anything, None)
    if label is not None and label not in LABELS:
        expected = " or ".join(map(repr, LABELS))
        raise BadRecordError(
            "unknown label", f"{name!r}: {shown(label)}, expected {expected}"
        )
    title = fields.get("title", STRING, "")
    return Record(name, title, text, label)


# --- cleaning -------------------------------------------------------------------------

# This and `_REPEATED` begin where a run begins, so that long ones take no longer.
_JOINED = re.compile("(?<![a-zA-Z])[a-zA-Z]+/[a-zA-Z]+")
_LINKS = tuple(re.compile(rf"{begin}\S+") for begin in ("http", "www", "href"))
_MARKS = re.compile("[!?.]+([!?.])")
# From its first letter, digit or underscore on.
_WORD = re.compile(r"\w\S*")
_REPEATED = re.compile(r"(\S)(?<!\1\1)\1{2,}\b")


def clean(text: str) -> str:
    """A text as Longformer's experiments clean it (Beltagy et al. 2020).

    Pairs of words joined by a slash go, and links; of marks that end sentences, one
    after the other, the last one stays; of a character that stands three times or more
    where a word ends, one stays, in numbers too (1000 becomes 10, as it did there);
    white space becomes one space.
    """
    text = _JOINED.sub(" ", text).replace("&#160;", "")
    # One after another, and not at once: what is left of a link may spell another.
    for link in _LINKS:
        text = link.sub("", text)
    text = _MARKS.sub(r"\1", " ".join(text.split()))
    return _WORD.sub(lambda word: _REPEATED.sub(r"\1", word[0]), text).strip()


# --- files ----------------------------------------------------------------------------


def read_values(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, what `parse` takes) of each article of a file, with its label.

    In place of an article that cannot be used, and of the truth of one that is not
    there, is the error that says so.

    Raises:
      BadRecordError: where a file is cut short or broken, or is something else.
        Articles before that place have come out.
      OSError: if a file cannot be read.
    """
    path = pathlib.Path(path)
    if has_objects(path):
        return read_lines(path)
    return _with_truth(path)


# The articles of files `articles-NAME.xml` or `.jsonl`; either may be gzipped. Nothing
# but one article and the labels of a file is in memory. Where there is no file of the
# truth, articles have no label.
read = reader(parse, read_values)


def _with_truth(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    truth_file = _truth_beside(path)
    truth = None if truth_file is None else _read_truth(truth_file)
    labelled = set()
    number = 0
    for number, element in enumerate(_children(path), start=1):
        labelled.add(element.get("id"))
        try:
            yield number, _article(element, truth)
        except BadRecordError as e:
            yield number, e
    for name in truth or ():
        if name not in labelled:
            number += 1
            where = f"{name!r}, of {truth_file}"
            yield number, BadRecordError("truth without article", where)


def _truth_beside(path: pathlib.Path) -> pathlib.Path | None:
    """The file of the truth; None if there is none."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise BadRecordError(
            "unknown file",
            f"{path}: expected a name such as {_EXAMPLE}, by which the truth is found, "
            f"or one that ends in .jsonl or .parquet",
        )
    plain = path.with_name(f"ground-truth-{match[1]}.xml")
    both = (plain, plain.with_name(f"{plain.name}.gz"))
    return next((file for file in both if file.exists()), None)


def _read_truth(path: pathlib.Path) -> Truth:
    truth: Truth = {}
    for number, element in enumerate(_children(path), start=1):
        try:
            name = _attribute(element, "id")
            label: str | BadRecordError = _attribute(element, "hyperpartisan")
        except BadRecordError as e:
            raise e.at(f"{path}, record {number}") from e
        if name in truth:
            label = BadRecordError("truth twice", f"{name!r}, in {path}")
        truth[name] = label
    return truth


def _article(element: ET.Element, truth: Truth | None) -> dict[str, Any]:
    name = _attribute(element, "id")
    value = {
        "id": name,
        "title": element.get("title", ""),
        "text": "".join(element.itertext()),
    }
    if truth is None:
        return value
    if name not in truth:
        raise BadRecordError("article without truth", repr(name))
    if isinstance(label := truth[name], BadRecordError):
        raise label
    return {**value, "label": label}


def _attribute(element: ET.Element, name: str) -> str:
    if element.tag != "article":
        raise BadRecordError("unknown element", f"<{element.tag}>, expected <article>")
    if not (value := element.get(name, "").strip()):
        raise BadRecordError("missing attribute", f"<article> has no {name!r}")
    return value


def _children(path: pathlib.Path) -> Iterator[ET.Element]:
    """The elements below the root of a file, each of which is forgotten after it.

    Raises:
      BadRecordError: where the file is cut short or broken, or the root is another.
      OSError: if it cannot be read.
    """
    try:
        with open_input(path) as file:
            yield from _below_root(file)
    except BadRecordError as e:
        raise e.at(os.fspath(path)) from e
    except ET.ParseError as e:
        kind = "file cut short" if e.code in _CUT_SHORT else "broken XML"
        where = f"{path}, line {e.position[0]}"
        raise BadRecordError(kind, f"{where}: {e}; fetch the file again") from e


def _below_root(file: BinaryIO) -> Iterator[ET.Element]:
    parser, depth, root, size = ET.XMLPullParser(("start", "end")), 0, None, 0
    while chunk := file.read1(_XML_BYTES):
        parser.feed(chunk)
        size += len(chunk)
        for event, element in parser.read_events():
            root = element if root is None else root
            if root.tag != "articles":
                raise BadRecordError(
                    "unknown file", f"root is <{root.tag}>, expected <articles>"
                )
            depth += 1 if event == "start" else -1
            if event == "end" and depth == 1:
                yield element
                root.clear()
                size = 0
            if depth > _MOST_DEPTH:
                raise BadRecordError(
                    "broken XML", f"elements {depth} deep, expected a few"
                )
        if size > max_record_bytes():
            raise too_large("record too large", "an article", size)
    parser.close()
