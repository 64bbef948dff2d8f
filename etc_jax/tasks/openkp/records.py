"""OpenKP's official files (Xiong et al. 2019): pages, their DOM and their keyphrases.

The files hold some urls more than once. As in the official pipeline, of the lines with
one url that with most keyphrases in its text is taken, the first of equal ones. So the
files are read twice, and only a hash and a number for each url are kept.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.datasets.fields import STRING, Fields, list_of, number, objects, whole
from etc_jax.datasets.json_lines import read_line_records
from etc_jax.datasets.records import BadRecordError, Note, PassedOverError, Problems

_WORD = whole(0, 2**31 - 1)
_KEYPHRASES = list_of(list_of(STRING))
_NUMBERS = list_of(number)

# The official pipeline keeps so many keyphrases of a page, and fails at longer urls.
MAX_KEYPHRASES = 3
MAX_URL_CHARS = 1000

# Of an element itself, and once more of its parent.
FEATURES = (
    *("x", "width", "y", "height", "block", "inline", "heading", "leaf"),
    *("font_size", "bold"),
)
_FLAGS = tuple(
    column
    for column, name in enumerate(2 * FEATURES)
    if name in ("block", "inline", "heading", "leaf", "bold")
)

_MANY_LINES = 1 << 40


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """A page.

    Attributes:
      id: its url.
      text: words with one space between any two; a word may be empty.
      elements: int32 `[k, 2]`, (first, one past the last) word of each element of the
        DOM. They follow each other and have all words.
      features: float32 `[k, 20]`, `FEATURES` of each element, then of its parent.
        Places and sizes are in pixels; flags are 0 or 1.
      keyphrases: lists of words as the file has them; None in test files.
    """

    id: str
    text: str
    elements: np.ndarray
    features: np.ndarray
    keyphrases: tuple[tuple[str, ...], ...] | None


def read(
    paths: Sequence[str | os.PathLike], problems: Problems | None = None
) -> Iterator[Record]:
    """The pages of official files such as `OpenKPTrain.jsonl`, each url once.

    Args:
      paths: one or more files, gzipped if named `.gz`; they are read twice.
      problems: where what is wrong is counted, and lines whose url has a better line;
        None: a bad record is raised, and such lines are passed over.

    Raises:
      BadRecordError: without `problems`, naming the file and the line.
      OSError: if a file cannot be read.
    """
    unheard = None if problems is None else Problems()
    best: dict[int, int] = {}
    for line in read_line_records(paths, _numbered(_rated), unheard):
        best[line.url] = max(best.get(line.url, 0), line.rating)

    def chosen(value: Any, note: Note, number: int) -> Record:
        record = parse(value, note)
        if best.get(hash(record.id)) != _rating(record, number):
            raise PassedOverError(
                "url twice", f"{record.id!r}: another of its lines is taken"
            )
        return record

    counted = Problems() if problems is None else problems
    yield from read_line_records(paths, _numbered(chosen), counted)


class _Rated(NamedTuple):
    """How good a line is for its url; the id is different for each line."""

    id: str
    url: int
    rating: int


def _numbered(parse_fn: Callable[[Any, Note, int], Any]) -> Callable[[Any, Note], Any]:
    """`parse_fn` with the number of the call as a third argument.

    Lines that are no JSON do not get there, so both readings count alike.
    """
    calls = 0

    def parse_one(value: Any, note: Note) -> Any:
        nonlocal calls
        calls += 1
        return parse_fn(value, note, calls)

    return parse_one


def _rated(value: Any, note: Note, number: int) -> _Rated:
    record = parse(value, note)
    return _Rated(str(number), hash(record.id), _rating(record, number))


def _rating(record: Record, number: int) -> int:
    """Higher for more keyphrases in the text, then for an earlier line."""
    return num_found(record) * _MANY_LINES + _MANY_LINES - number


def num_found(record: Record) -> int:
    """How many keyphrases are in the text as whole words, whatever their case.

    The official pipeline looks no further than the third.
    """
    text = f" {record.text.lower()} "
    phrases = (" ".join(phrase).lower() for phrase in record.keyphrases or ())
    return min(sum(f" {phrase} " in text for phrase in phrases), MAX_KEYPHRASES)


def parse(value: Any, note: Note) -> Record:
    """A page from its JSON value.

    Args:
      value: the object of the official format.
      note: called with (kind, message) for what is odd: a long url, or a page without
        its keyphrases, which cannot be trained on and does count in a score.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    url, text = fields.text("url"), fields.text("text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise BadRecordError("no Unicode", f"half a character in {url!r}: {e}") from e
    nodes = _nodes(fields.text("VDOM"), url)
    elements, features = _elements(nodes, text, url), _features(nodes, url)
    keyphrases = _keyphrases(fields, url) if "KeyPhrases" in fields else None
    record = Record(url, text, elements, features, keyphrases)
    if len(url) > MAX_URL_CHARS:
        note("url too long", f"{url[:60]!r}... has {len(url)} characters")
    if keyphrases is not None and not num_found(record):
        note("no keyphrase found", f"{url!r}: none of {keyphrases} is in the text")
    return record


def _nodes(vdom: str, url: str) -> list[Fields]:
    try:
        values = json.loads(vdom)
    except (ValueError, RecursionError) as e:
        raise BadRecordError("broken VDOM", f"{url!r}: VDOM is no JSON: {e}") from e
    try:
        return objects(values, "VDOM")
    except BadRecordError as e:
        raise e.at(repr(url)) from e


def _elements(nodes: Sequence[Fields], text: str, url: str) -> np.ndarray:
    """The words of each element, which have to be those of the text, in order."""
    words, elements, last = text.split(" "), [], 0
    for i, node in enumerate(nodes):
        try:
            start, end = (node.get(key, _WORD) for key in ("start_idx", "end_idx"))
            element = node.get("text", STRING)
        except BadRecordError as e:
            raise e.at(repr(url)) from e
        if start != last or " ".join(words[start:end]) != element or end < start:
            raise BadRecordError(
                "VDOM does not tile the text",
                f"{url!r}: element {i} is {element[:40]!r} at words {start} to {end}; "
                f"expected what stands there, from word {last} on",
            )
        elements.append((start, end))
        last = end
    if last != len(words):
        raise BadRecordError(
            "VDOM does not tile the text",
            f"{url!r}: elements end at word {last} of {len(words)}",
        )
    return np.array(elements, np.int32)


def _features(nodes: Sequence[Fields], url: str) -> np.ndarray:
    """float32 `[k, 20]`."""
    rows = [_feature(node, url) for node in nodes]
    features = np.array(rows, np.float64)
    wrong = ~np.isin(features[:, _FLAGS], (0, 1)).all(-1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise BadRecordError(
            "wrong features",
            f"{url!r}: element {i} has {rows[i]}; expected 0 or 1 in columns "
            f"{list(_FLAGS)}",
        )
    return features.astype(np.float32)


def _feature(node: Fields, url: str) -> tuple[float, ...]:
    try:
        row = node.get("feature", _NUMBERS)
    except BadRecordError as e:
        raise BadRecordError("wrong features", f"{url!r}: {e.message}") from e
    if len(row) != 2 * len(FEATURES):
        raise BadRecordError(
            "wrong features",
            f"{url!r}: an element has {len(row)} numbers, expected {2 * len(FEATURES)}",
        )
    return row


def _keyphrases(fields: Fields, url: str) -> tuple[tuple[str, ...], ...]:
    phrases = fields.get("KeyPhrases", _KEYPHRASES)
    if not any(any(phrase[:1]) for phrase in phrases):
        raise BadRecordError("empty field", f"{url!r}: 'KeyPhrases' has no phrase")
    return phrases
