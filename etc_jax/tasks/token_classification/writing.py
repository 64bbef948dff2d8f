"""Predicted tags in the form of the file that was read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_jax.datasets.json_lines import has_objects
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.tables import read_json_rows
from etc_jax.tasks.token_classification.columns import Columns, read_columns, read_lines
from etc_jax.tasks.token_classification.decoding import Tags
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.explained import character_spans
from etc_jax.tasks.token_classification.records import (
    OPTIONS,
    TokenClassificationOptions,
    parse,
)
from etc_jax.tasks.token_classification.schemes import spans_of

# Of a word without a prediction, as CoNLL-U has what is not known.
_UNKNOWN = "_"


def in_input_layout(
    path: str | os.PathLike,
    content: Sequence[Mapping[str, Any]],
    *,
    options: TokenClassificationOptions = OPTIONS,
) -> Iterator[str]:
    """The text of a file with predictions beside all that it has, line by line.

    Columns have one more, with the predicted tags, `_` for words without; JSON lines
    have `predicted_tags`, or `predicted_spans` of a text. Lines of JSON that cannot be
    read are left out.

    Args:
      path: of the file.
      content: of the prediction file, see `decoding.official`.
      options: that the file was read with.

    Raises:
      BadRecordError: where a compressed file is damaged.
      OSError: if it cannot be read.
    """
    tags = {value["id"]: value["tags"] for value in content}
    if has_objects(path):
        return _json_lines(path, tags, options)
    return _column_lines(path, tags, options)


def _column_lines(
    path: str | os.PathLike, tags: dict[str, Tags], options: TokenClassificationOptions
) -> Iterator[str]:
    predicted = _tags_of_lines(path, tags, options)
    number, tag = next(predicted, (0, ""))
    for line in read_lines(path):
        if not line.cells:
            yield line.text
            continue
        predicted_tag = _UNKNOWN
        if line.number == number:
            predicted_tag = tag
            number, tag = next(predicted, (0, ""))
        between = "\t" if "\t" in line.text else " "
        yield between.join((line.text.rstrip("\r\n"), f"{predicted_tag}\n"))


def _tags_of_lines(
    path: str | os.PathLike, tags: dict[str, Tags], options: TokenClassificationOptions
) -> Iterator[tuple[int, str]]:
    """(number of a line, predicted tag) of the words that have one, in order."""
    for _, record in read_columns(path, options.unit == "document"):
        if isinstance(record, Columns):
            of_record = tags.get(record.name, ())
            for rows, of_sentence in zip(record.sentences, of_record, strict=False):
                numbers = (row.number for row in rows)
                yield from zip(numbers, of_sentence, strict=True)


def _json_lines(
    path: str | os.PathLike, tags: dict[str, Tags], options: TokenClassificationOptions
) -> Iterator[str]:
    for _, row in read_json_rows(path):
        try:
            if isinstance(row, BadRecordError):
                continue
            record = parse(row, lambda *note: None, options=options)
        except BadRecordError:  # the report of the evaluation has counted it
            continue
        # Of lines with one id, the first was read.
        predicted = tags.pop(record.id, None)
        more = (
            {}
            if predicted is None
            else _predicted(record, predicted, row.values, options)
        )
        yield f"{json.dumps({**row.values, **more}, ensure_ascii=False)}\n"


def _predicted(
    record: Record,
    tags: Tags,
    value: Mapping[str, Any],
    options: TokenClassificationOptions,
) -> dict[str, Any]:
    if record.text_words is not None:
        if not tags:
            return {"predicted_spans": []}
        spans = character_spans(record, [*map(spans_of, tags)])
        return {"predicted_spans": [list(span) for span in spans]}
    words = value[options.word_column or "tokens"]
    if not isinstance(words[0], list):
        return {"predicted_tags": tags[0] if tags else []}
    # Sentences without a word were left out.
    left = iter(tags)
    return {"predicted_tags": [next(left, []) if x else [] for x in words]}
