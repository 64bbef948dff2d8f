"""Coreference: which mentions of a text are of one entity (OntoNotes 5, LitBank).

    task = DATA_SET.in_format("sequence")
    for record in task.read(["train.english.v4_gold_conll"], Problems()):
        windows += task.features(record, tokenizer)
    clusters = task.answers(outputs, windows)

Files have CoNLL's columns, or are JSON lines. What `etc-jax evaluate` writes has the
clusters of each document by (first, last) word; the response file that CoNLL-2012's
scorer reads is made of it by `etc_jax.tasks.coreference.writing`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from etc_jax.datasets.decoding import of_one_setting, with_records
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.records import Note, reader
from etc_jax.datasets.task import DataSet, in_formats, register
from etc_jax.tasks.coreference import decoding, explained, json_form, records, windows


def _values(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    return read_lines(path) if has_objects(path) else records.read_parts(path)


def parse(value: Any, note: Note) -> records.Record:
    """A record from its lines, or from its JSON value.

    Args:
      value: `Lines` of a part in columns, or an object; see `json_form`.
      note: called with (kind, message) for what is odd.

    Raises:
      BadRecordError: if it cannot be used.
    """
    is_lines = isinstance(value, records.Lines)
    return (records if is_lines else json_form).parse(value, note)


# The documents of files in CoNLL's columns, or of JSON lines if named `.jsonl` or
# `.jsonlines`; gzipped if named `.gz`.
read = reader(parse, _values)

DATA_SET = register(
    DataSet(
        name="coreference",
        read=read,
        parse=parse,
        metric="conll_f1",
        no_answer=[],
        official=dict,
        gold=decoding.official_gold,
        score=decoding.score,
        unread_gold=decoding.unread_gold,
        converters=in_formats(
            {"sequence": windows},
            learner="coreference",
            decode=of_one_setting(decoding.decode_each),
            explain=with_records(decoding.decode_each),
            pool=decoding.pool,
            pool_explained=explained.pool_explained,
            gold_outputs=decoding.gold_outputs,
            why_lost=decoding.why_lost,
        ),
        absent={"structured": "no paper resolves coreference with ETC"},
    )
)
