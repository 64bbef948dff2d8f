"""One's own words with tags, from CoNLL's columns and from JSON lines."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

from etc_jax.base.rules import at_least
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets.fields import STRING, Fields, anything, list_of, text
from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import (
    BadRecordError,
    Note,
    Problems,
    RefusedError,
    reader,
)
from etc_jax.datasets.tables import digest_id, is_json_value, read_json_rows, row_of
from etc_jax.tasks.token_classification import schemes
from etc_jax.tasks.token_classification.columns import (
    Columns,
    Line,
    column_of,
    read_columns,
)
from etc_jax.tasks.token_classification.document import Record, Sentences
from etc_jax.tasks.token_classification.forms import fields_of
from etc_jax.tasks.token_classification.spans import spans_in, tags_of_spans, words_of

_MOST_LABELS = 1000
_SHOWN_LABELS = 30
_NO_COLUMN = "none"


@dataclasses.dataclass(frozen=True)
class TokenClassificationOptions(InputOptions):
    """Words and tags by their columns, and how words become inputs.

    Attributes:
      word_column: of words: its number from 1, or the name that a line
        `# global.columns` gives it; in JSON lines the field (by default 1, and tokens).
      tag_column: the same of tags, -1 for the last; "none": there are no tags (by
        default -1, and tags).
      text_column: field of JSON lines with a text, where there are no words.
      span_column: field with the spans of that text, each [start, end, label] in
        characters, or an object of these.
      unit: what becomes inputs as a whole: a document, where -DOCSTART- says where one
        begins, or a sentence.
      scheme: of tags of entities; plain: tags are no entities; auto: what all sentences
        of the files to learn from follow.
      labels: all tags there are, in the order of the model's outputs; by default those
        of the scheme for the types in the files to learn from, sorted.
      all_pieces: every piece of a word learns its tag, not the first one alone.
      context: tokens on both sides of a window that are read and not predicted, where a
        document has several windows.
    """

    given_to = ("features", "read", "parse", "release", "in_input_layout")

    word_column: str = ""
    tag_column: str = ""
    text_column: str = "text"
    span_column: str = "spans"
    unit: Literal["document", "sentence"] = "document"
    scheme: Literal[
        "auto",
        "iob1",
        "iob2",
        "iobes",
        "bilou",
        "bmes",
        "bmeow",
        "ioe1",
        "ioe2",
        "plain",
    ] = "auto"
    labels: tuple[str, ...] = ()
    all_pieces: bool = False
    context: int = 0

    def __post_init__(self):
        # JSON has lists.
        object.__setattr__(self, "labels", tuple(x.strip() for x in self.labels))
        if self.labels and len({*self.labels} - {""}) < max(len(self.labels), 2):
            raise ValueError(
                f"labels is {_shown(self.labels)}; expected 2 or more, each once and "
                "not blank"
            )
        at_least(0).check(context=self.context)

    @property
    def has_tags(self) -> bool:
        """Whether records may have tags."""
        return self.tag_column != _NO_COLUMN

    def completed(self, paths: Sequence[str | os.PathLike]) -> Self:
        """With scheme and labels of the files.

        Raises:
          ValueError: if a tag is none of the given labels, too few or too many are
            found, or they follow no scheme.
          OSError: if a file cannot be read.
        """
        scheme, tags = _tags_in(paths, self)
        labels = self.labels or schemes.full_labels(tags, scheme)
        return dataclasses.replace(self, scheme=scheme, labels=labels)

    def shaping(self, sizes: InputSizes) -> dict[str, Any]:
        """See there: a document is cut into windows by the length."""
        return {
            "labels": self.labels,
            "scheme": self.scheme,
            "unit": self.unit,
            "all_pieces": self.all_pieces,
            "context": self.context,
            sizes.text_field: sizes.text_length,
        }

    def task_fields(self) -> dict[str, Any]:
        """The classes, and how tags are scored and shown."""
        return {"classes": self.labels, **fields_of(self.scheme)}

    def problem(self, objective: Any) -> str | None:
        """A model needs the labels, which a cache of `etc-jax prepare` has."""
        del objective
        if self.labels:
            return None
        return (
            "the tags are not known; set data.input_options to what etc-jax prepare "
            "says at its end"
        )


OPTIONS = TokenClassificationOptions()


def _read_file(
    path: str | os.PathLike, options: TokenClassificationOptions
) -> Iterator[tuple[int, Any]]:
    if has_objects(path):
        return read_json_rows(path)
    return read_columns(path, options.unit == "document")


def release(
    path: str, *, options: TokenClassificationOptions = OPTIONS
) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`: all files but those of JSON that are no JSON lines."""
    return None if is_json_value(path) else _read_file(path, options)


def parse(
    value: Any, note: Note, *, options: TokenClassificationOptions = OPTIONS
) -> Record:
    """A record from rows of columns, or from a JSON object.

    Args:
      value: rows; or an object with words, or with a text. Tags are not needed to be
        answered.
      note: called with (kind, message) for what is odd.
      options: see `read`.

    Raises:
      BadRecordError: if it cannot be used; RefusedError if a tag is none of those that
        are known.
    """
    if isinstance(value, Columns):
        record = _of_columns(value, options)
    else:
        row = row_of(value, note)
        record = _of_json(Fields(row.values), row.name, note, options)
    if record.tags is not None:
        _check_tags(record, note, options)
    return record


# The records of files, one at a time: JSON lines if named so, columns otherwise.
read = reader(parse, _read_file, OPTIONS)


def _of_columns(value: Columns, options: TokenClassificationOptions) -> Record:
    first = value.sentences[0][0]
    index_of = functools.partial(column_of, names=value.names)

    def column(name: str, what: str) -> Sentences:
        def cell(row: Line) -> str:
            content = row.cells[index_of(name, row=row, what=what)].strip()
            if not content:
                where = f"line {row.number}: no {what} in column {name}"
                raise BadRecordError("empty cell", where)
            return content

        return tuple(tuple(map(cell, rows)) for rows in value.sentences)

    # A row of one column is a word alone.
    word, tag = options.word_column or "1", options.tag_column or "-1"
    has_tags = options.has_tags and index_of(word, row=first, what="words") != index_of(
        tag, row=first, what="tags"
    )
    tags = column(tag, "tags") if has_tags else None
    return Record(value.name, column(word, "words"), tags, options.labels)


def _of_json(
    fields: Fields, name: str, note: Note, options: TokenClassificationOptions
) -> Record:
    words, text_field = options.word_column or "tokens", options.text_column
    if words in fields or text_field not in fields:
        sentences = fields.get(words, _sentences)
        tags = None
        if options.has_tags:
            tags = fields.get(options.tag_column or "tags", _optional_tags, None)
        if tags is not None and [*map(len, tags)] != [*map(len, sentences)]:
            raise BadRecordError(
                "tags of other words",
                f"sentences have {[*map(len, sentences)]} words and "
                f"{[*map(len, tags)]} tags; expected a tag for each word",
            )
        name = _id(fields, name or digest_id(sentences))
        return Record(name, sentences, tags, options.labels)
    text = fields.text(text_field)
    text_words = words_of(text)
    name = _id(fields, name or digest_id(text))
    sentences = tuple(
        tuple(text[start:stop] for start, stop in offsets)
        for offsets in text_words.offsets
    )
    spans = fields.get(options.span_column, anything, None)
    tags = None
    if options.has_tags and spans is not None:
        tags = tags_of_spans(spans_in(spans, options.span_column), text_words, note)
    return Record(name, sentences, tags, options.labels, text_words)


def _sentences(value: Any, what: str) -> Sentences:
    """A list of words, or a list of such lists; empty ones are left out."""
    is_nested = value and isinstance(value, list) and isinstance(value[0], list)
    nested = list_of(list_of(STRING) if is_nested else STRING, least=1)(value, what)
    sentences = tuple(filter(None, nested)) if is_nested else (nested,)
    if not sentences:
        raise BadRecordError("no text", f"{what!r} has no word")
    return sentences


def _optional_tags(value: Any, what: str) -> Sentences | None:
    return None if value is None else _sentences(value, what)


def _id(fields: Fields, otherwise: str) -> str:
    name = fields.get("id", anything, otherwise)
    if type(name) is int:
        return str(name)
    return text(name, "id")


# --- tags -----------------------------------------------------------------------------


def _check_tags(
    record: Record, note: Note, options: TokenClassificationOptions
) -> None:
    for number, tags in enumerate(record.tags, start=1):
        labels = options.labels
        for unknown in sorted({*tags} - {*labels}) if labels else ():
            raise RefusedError(
                "unknown tag",
                f"{record.id!r} has the tag {unknown!r:.60}, which is none of the "
                f"known ones: {_shown(labels)}",
            )
        if options.scheme == "auto":
            continue
        for word, wrong in schemes.breaks(tags, options.scheme):
            note(
                "tag out of its scheme",
                f"{record.id!r}, sentence {number}, word {word + 1}: {wrong}",
            )


def _tags_in(
    paths: Sequence[str | os.PathLike], options: TokenClassificationOptions
) -> tuple[str, set[str]]:
    """(scheme, tags) of some files.

    Raises:
      ValueError, OSError: as for `TokenClassificationOptions.completed`.
    """
    problems, finder = Problems(), schemes.SchemeFinder()
    # Only what is read at last is counted as odd.
    scheme = options.scheme
    looking = dataclasses.replace(options, scheme="auto")
    for record in read(paths, problems, options=looking):
        for tags in record.tags or ():
            finder.add(tags, record.id)
        if len(finder.tags) > _MOST_LABELS and not options.labels:
            raise ValueError(
                f"there are more than {_MOST_LABELS} tags, such as "
                f"{_shown(sorted(finder.tags)[:3])}; name another column with "
                "tag_column, or give all labels"
            )
    if problems.refused is not None:
        raise problems.refused
    tags = {*finder.tags, *options.labels}
    if len(tags) < 2:
        raise ValueError(
            f"the files have {len(tags)} tags, expected 2 or more; {problems.report()}"
        )
    if scheme == "auto":
        return finder.scheme(), tags
    if foreign := sorted(x for x in tags if not schemes.is_of(x, scheme)):
        raise ValueError(
            f"scheme is {scheme}, but there are tags without its prefixes: "
            f"{_shown(foreign[:3])}; leave scheme out to have it found, set "
            "scheme=plain, or name another tag_column"
        )
    return scheme, tags


def _shown(labels: Sequence[str]) -> str:
    more = ", ..." if len(labels) > _SHOWN_LABELS else ""
    return ", ".join(f"{x!r:.40}" for x in labels[:_SHOWN_LABELS]) + more
