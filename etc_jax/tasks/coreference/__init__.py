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

from etc_jax.base import registry
from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.records import Note, reader
from etc_jax.datasets.task import DataSet, FeatureConverter
from etc_jax.tasks.coreference import (
    json_form as coreference_json,
    records as coreference_records,
)
from etc_jax.tasks.coreference.decoding import (
    decode,
    decode_each,
    gold_outputs,
    official_gold,
    pool,
    score,
    unread_gold,
    why_lost,
)
from etc_jax.tasks.coreference.explained import explain, pool_explained
from etc_jax.tasks.coreference.records import Lines, Record
from etc_jax.tasks.coreference.windows import (
    SIZES,
    CoreferenceOptions,
    CoreferenceWindow,
    features,
    record_length,
)

__all__ = [
    "SIZES",
    "DATA_SET",
    "CoreferenceWindow",
    "CoreferenceOptions",
    "Record",
    "decode",
    "features",
    "gold_outputs",
    "official_gold",
    "parse",
    "pool",
    "read",
    "score",
]


def _values(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    if has_objects(path):
        return read_lines(path)
    return coreference_records.read_parts(path)


def parse(value: Any, note: Note) -> Record:
    """A record from its lines, or from its JSON value.

    Args:
      value: `Lines` of a part in columns, or an object; see `coreference_json`.
      note: called with (kind, message) for what is odd.

    Raises:
      BadRecordError: if it cannot be used.
    """
    if isinstance(value, Lines):
        return coreference_records.parse(value, note)
    return coreference_json.parse(value, note)


# The documents of files in CoNLL's columns, or of JSON lines if named `.jsonl` or
# `.jsonlines`; gzipped if named `.gz`.
read = reader(parse, _values)


SEQUENCE = FeatureConverter(
    learner="coreference",
    sizes=SIZES,
    features=features,
    options=CoreferenceOptions(),
    decode=of_one_setting(decode_each),
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs,
    why_lost=why_lost,
    record_length=record_length,
)

DATA_SET = registry.register("data_set", "coreference")(
    DataSet(
        name="coreference",
        read=read,
        parse=parse,
        metric="conll_f1",
        no_answer=[],
        official=dict,
        gold=official_gold,
        score=score,
        unread_gold=unread_gold,
        converters={"sequence": SEQUENCE},
        absent={"structured": "no paper resolves coreference with ETC"},
    )
)
