"""Coreference in CoNLL's columns: CoNLL-2012's files and LitBank's.

A row is a word. The first four columns are document, part, number of the word in its
sentence, and word; the last one says which clusters have a mention that begins or ends
there: `(3`, `3)` or `(3)`, joined by `|`. Columns are apart by tabs, so that a cell can
be empty, or by any white space.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from etc_jax.data.input_files import (
    BadRecordError,
    decoded,
    lines,
    max_record_bytes,
    open_input,
    too_large,
)
from etc_jax.datasets.records import Note

# (first, last) word, both of the mention, counted over the whole part.
Span = tuple[int, int]
# Sorted, and sorted by their first mentions.
Clusters = tuple[tuple[Span, ...], ...]

_NONE = ("", "-", "_")
_WORD = 3
_MIN_COLUMNS = 5
# A response has five columns. With fewer than twelve, none is the speaker's.
_SPEAKER, _MIN_COLUMNS_WITH_SPEAKER = 9, 12
_BEGIN, _END = b"#begin document", b"#end document"
_BEGIN_LINE = re.compile(r"#begin document \((.+)\); part (\d+)\s*")
_BRACKET = re.compile(r"(\()?(\d+)(\))?")
_BLANKS = re.compile(r"[ \t]+")
_LINE_BYTES = 64


@dataclasses.dataclass(frozen=True)
class Record:
    """A part of a document.

    Attributes:
      document: name, which the parts of a document share.
      part: number as the file spells it: the official scorer takes "0" and "000" for
        different parts.
      sentences: words of each.
      speakers: of each sentence; None where the file does not say.
      clusters: mentions of each entity, those of one mention among them; none where the
        file has no coreference; None where its form can say that nobody labelled it.
      key: what a file of JSON lines calls it; None in columns.
    """

    document: str
    part: str
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[str | None, ...]
    clusters: Clusters | None
    key: str | None = None

    @property
    def id(self) -> str:
        """What its file tells it apart by."""
        return self.heading if self.key is None else self.key

    @property
    def heading(self) -> str:
        """What the official scorer tells parts apart by."""
        return f"({self.document}); part {self.part}"


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of a part, the first of which is its `#begin`, without its `#end`.

    Attributes:
      number: of the first line in its file.
      lines: undecoded.
    """

    number: int
    lines: list[bytes]


def read_parts(
    path: str | os.PathLike,
) -> Iterator[tuple[int, Lines | BadRecordError]]:
    """(number from 1, lines) of each part; an error for one that has no end.

    Rows outside of any part are an error too, one for all up to the next part.

    Raises:
      BadRecordError: where the file ends inside of a part, or a compressed file is
        damaged. Parts before that place have come out.
      OSError: if the file cannot be read.
    """
    name, number = os.fspath(path), 0
    try:
        with open_input(name) as file:
            for number, part in enumerate(_parts(lines(file)), 1):
                yield number, part
    except BadRecordError as e:
        raise e.at(f"{name}, record {number + 1}") from e


def _parts(
    numbered: Iterable[tuple[int, bytes | BadRecordError]],
) -> Iterator[Lines | BadRecordError]:
    part: Lines | BadRecordError | None = None
    strays, size = False, 0
    for at, line in numbered:
        if isinstance(line, BadRecordError):
            part, strays = line, False
        elif line.startswith(_BEGIN):
            if isinstance(part, Lines):
                yield _without_end(part, at)
            elif part is not None:
                yield part
            part, strays, size = Lines(at, [line]), False, 0
        elif line.startswith(_END):
            yield part or _stray("end without a part", at, line)
            part, strays = None, False
        elif isinstance(part, Lines):
            # An object in memory, however short the line.
            size += max(len(line), _LINE_BYTES)
            part.lines.append(line)
            if size > max_record_bytes():
                part = too_large("part too large", f"from line {part.number}, it", size)
        elif part is None and line.strip() and not strays:
            yield _stray("rows outside of a part", at, line)
            strays = True
    if isinstance(part, Lines):
        raise BadRecordError(
            "file cut short",
            f"line {part.number}: a part begins that has no #end; fetch the file again",
        )
    if part is not None:
        yield part


def _without_end(part: Lines, at: int) -> BadRecordError:
    return BadRecordError(
        "part without an end",
        f"line {at}: a part begins inside of that of line {part.number}; expected "
        "#end document before it",
    )


def _stray(kind: str, at: int, line: bytes) -> BadRecordError:
    return BadRecordError(
        kind,
        f"line {at}: {line.strip()[:40]!r}; expected before it #begin document (NAME); "
        "part NUMBER",
    )


# --- one part -------------------------------------------------------------------------


def parse(value: Lines, note: Note) -> Record:
    """A record from its lines.

    Args:
      value: see there.
      note: called with (kind, message) for what is odd.

    Raises:
      BadRecordError: if it cannot be used.
    """
    begin = decoded(value.lines[0], value.number)
    if (match := _BEGIN_LINE.fullmatch(begin)) is None:
        raise BadRecordError(
            "broken #begin",
            f"line {value.number}: {begin.strip()!r}, expected "
            "#begin document (NAME); part NUMBER",
        )
    mentions = _Mentions(note)
    sentences: list[list[str]] = [[]]
    speakers: list[str | None] = []
    for at, raw in enumerate(value.lines[1:], value.number + 1):
        line = decoded(raw, at)
        if not line.strip():
            if sentences[-1]:
                sentences.append([])
            continue
        columns = _columns(at, line)
        speaker = _speaker(columns)
        if not sentences[-1]:
            speakers.append(speaker)
        elif speaker != speakers[-1]:
            note("two speakers in a sentence", f"line {at}: {speaker!r} is left out")
        sentences[-1].append(columns[_WORD])
        mentions.add_word(at, columns[-1])
    document, part = match.groups()
    if not speakers:
        raise BadRecordError("no text", f"line {value.number}: no row up to #end")
    return Record(
        document=document,
        part=part,
        sentences=tuple(map(tuple, filter(None, sentences))),
        speakers=tuple(speakers),
        clusters=mentions.clusters(),
    )


def _columns(at: int, line: str) -> list[str]:
    # Not `split()`: a word may be a space that is not ASCII.
    if "\t" in line:
        columns = line.rstrip("\r\n").split("\t")
    else:
        columns = _BLANKS.split(line.strip(" \r\n"))
    if len(columns) < _MIN_COLUMNS:
        raise BadRecordError(
            "too few columns",
            f"line {at}: {len(columns)} columns in {line.strip()[:60]!r}, expected at "
            f"least {_MIN_COLUMNS}: document, part, number, word, ..., coreference",
        )
    if not columns[_WORD]:
        raise BadRecordError("no word", f"line {at}: column {_WORD + 1} is empty")
    return columns


def _speaker(columns: Sequence[str]) -> str | None:
    if len(columns) < _MIN_COLUMNS_WITH_SPEAKER or columns[_SPEAKER] in _NONE:
        return None
    return columns[_SPEAKER]


class _Mentions:
    """Brackets to spans of words, as the official scorer pairs them.

    Of a word's brackets, those that open come first, in whatever order they stand, and
    one that closes closes the last that its cluster has open.
    """

    def __init__(self, note: Note):
        self._note = note
        self._words = 0
        # By cluster: (word, line) of what is open.
        self._open: dict[int, list[Span]] = collections.defaultdict(list)
        self._cluster_of: dict[Span, int] = {}

    def add_word(self, at: int, cell: str) -> None:
        """Takes the last column of the next word, in line `at`."""
        word = self._words
        self._words += 1
        if cell in _NONE:
            return
        matches = [_BRACKET.fullmatch(part) for part in cell.split("|")]
        if not all(match and (match[1] or match[3]) for match in matches):
            raise BadRecordError(
                "broken coreference",
                f"line {at}: {cell!r}, expected '-', or '(3', '3)', '(3)' joined by |",
            )
        for opens, cluster, closes in (match.groups() for match in matches):
            if opens and not closes:
                self._open[int(cluster)].append((word, at))
        for opens, cluster, closes in (match.groups() for match in matches):
            if closes:
                first = word if opens else self._closed(int(cluster), at)
                self._add((first, word), int(cluster), at)

    def _closed(self, cluster: int, at: int) -> int:
        """The word where the bracket opens that is closed here."""
        if not self._open[cluster]:
            raise BadRecordError(
                "bracket closes nothing",
                f"line {at}: '{cluster})' without '({cluster}'",
            )
        word, _ = self._open[cluster].pop()
        return word

    def _add(self, span: Span, cluster: int, at: int) -> None:
        other = self._cluster_of.get(span)
        if other is None:
            self._cluster_of[span] = cluster
        elif other == cluster:
            self._note("mention twice", f"line {at}: words {span} of {cluster}")
        else:
            raise BadRecordError(
                "mention in two clusters",
                f"line {at}: words {span} are in clusters {other} and {cluster}",
            )

    def clusters(self) -> Clusters:
        """All of them, at the end of the part."""
        for cluster, starts in self._open.items():
            if starts:
                raise BadRecordError(
                    "bracket never closed",
                    f"line {starts[-1][1]}: '({cluster}' without '{cluster})' up to "
                    "#end",
                )
        by_cluster = collections.defaultdict(list)
        for span, cluster in sorted(self._cluster_of.items()):
            by_cluster[cluster].append(span)
        return tuple(map(tuple, by_cluster.values()))
