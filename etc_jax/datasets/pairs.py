"""Pairs of texts in JSON lines: what a model reads, and what it learns to write.

A file has a JSON object a line, with `input` and `target`, both text, and `id` if there
is one; without, pairs are named by the beginning of their SHA-256.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.fields import STRING, Fields
from etc_jax.datasets.json_lines import read_line_records, read_lines
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.records import BadRecordError, Note, Problems
from etc_jax.formats.text_to_text import end_id

_ID_DIGITS = 16


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two texts.

    Attributes:
      id: of the pair.
      input: text to be read.
      target: text to be written; None without one.
    """

    id: str
    input: str
    target: str | None


@dataclasses.dataclass(frozen=True)
class PairOptions(InputOptions):
    """How texts become tokens.

    Attributes:
      begin_token: texts begin with the first token of the vocabulary, such as <s>, as
        those of BART and LED do; T5 has none.
    """

    begin_token: bool = False


PLAIN = PairOptions()


def read(
    paths: Sequence[str | os.PathLike], problems: Problems | None = None
) -> Iterator[Pair]:
    """The pairs of JSON lines, with or without a target; see `read_line_records`."""
    return read_line_records(paths, parse, problems)


def parse(value: Any, note: Note) -> Pair:
    """A pair from a JSON value; see the module.

    Raises:
      BadRecordError: if it cannot be used.
    """
    del note
    fields = Fields(value)
    text = fields.get("input", STRING)
    target = fields.get("target", STRING, None)
    if not text.strip():
        raise BadRecordError("no text", "the input is blank, expected text")
    if "id" in value:
        return Pair(fields.text("id"), text, target)
    digest = hashlib.sha256(json.dumps([text, target]).encode()).hexdigest()
    return Pair(digest[:_ID_DIGITS], text, target)


def read_complete(paths: Sequence[str | os.PathLike]) -> Iterator[Pair]:
    """The pairs to learn from, named by file and line: the same may come twice.

    Raises:
      BadRecordError: naming the file and the record that cannot be used, or has no
        target.
      OSError: if a file cannot be read.
    """
    for path in paths:
        for number, value in read_lines(path):
            try:
                pair = _complete(value)
            except BadRecordError as e:
                raise e.at(f"{os.fspath(path)}, record {number}") from e
            name = f"{pathlib.Path(path).name}:{number}"
            yield dataclasses.replace(pair, id=name)


def _complete(value: Any) -> Pair:
    if isinstance(value, BadRecordError):
        raise value
    Fields(value).get("target", STRING)
    return parse(value, lambda kind, message: None)


def encoded(
    pair: Pair, tokenizer: Tokenizer, options: PairOptions = PLAIN
) -> tuple[list[int], list[int] | None]:
    """(ids of the input, of the target or None), each with its end token.

    Raises:
      BadRecordError: if the input has no token.
      ValueError: if the tokenizer lacks a special token.
    """
    first = [tokenizer.special_id("cls")] if options.begin_token else []
    end = end_id(tokenizer)
    source, target = encode(tokenizer, [pair.input, pair.target or ""])
    if not len(source):
        raise BadRecordError("no text", "the input has no token in this vocabulary")
    ids = [*first, *source.ids, end]
    return ids, None if pair.target is None else [*first, *target.ids, end]
