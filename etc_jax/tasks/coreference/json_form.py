"""Coreference as JSON lines, in the form that models of spans are trained from.

A line is a document, as Lee et al. (2017) write them, of which these keys are read:

    doc_key     name and number of the part, as "bn/abc/00/abc_0001_0"
    sentences   words of each sentence
    clusters    mentions of each entity, (first, last) word counted over the document;
                left out, or null, where nobody has labelled
    speakers    a name for each word of each sentence; may be left out
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from etc_jax.datasets.fields import (
    LIST,
    STRING,
    WHOLE,
    Fields,
    anything,
    list_of,
    pair,
    shown,
)
from etc_jax.datasets.records import BadRecordError, Note
from etc_jax.tasks.coreference.records import Clusters, Record, Span

_MENTIONS = list_of(list_of(pair(WHOLE, WHOLE)))


def parse(value: Any, note: Note) -> Record:
    """A record from its JSON value.

    Args:
      value: the object, see the module.
      note: called with (kind, message) for what is odd.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    key = fields.text("doc_key")
    sentences = tuple(filter(None, fields.get("sentences", list_of(list_of(_word)))))
    if not sentences:
        raise BadRecordError("no text", f"{key!r} has no word")
    number = sum(map(len, sentences))
    clusters = None
    if fields.get("clusters", anything, None) is not None:
        clusters = _clusters(key, fields.get("clusters", _MENTIONS), number)
    document, _, part = key.rpartition("_")
    if not (document and part.isascii() and part.isdecimal()):
        document, part = key, "0"
    speakers = _speakers(key, fields, sentences, note)
    return Record(document, part, sentences, speakers, clusters, key)


def _word(value: Any, what: str) -> str:
    if not STRING(value, what):
        raise BadRecordError("wrong type", f"{what!r} is empty, expected a word")
    return value


def _clusters(key: str, value: Sequence[Sequence[Span]], number: int) -> Clusters:
    cluster_of: dict[Span, int] = {}
    for number_of, mentions in enumerate(value):
        for span in mentions:
            if not 0 <= span[0] <= span[1] < number:
                raise BadRecordError(
                    "wrong mention",
                    f"{key!r}: {list(span)}, expected [first, last] of {number} words",
                )
            if cluster_of.setdefault(span, number_of) != number_of:
                raise BadRecordError(
                    "mention in two clusters",
                    f"{key!r}: words {span} are in clusters {cluster_of[span]} and "
                    f"{number_of}",
                )
    by_cluster = collections.defaultdict(list)
    for span, number_of in sorted(cluster_of.items()):
        by_cluster[number_of].append(span)
    return tuple(map(tuple, by_cluster.values()))


def _speakers(
    key: str, fields: Fields, sentences: tuple[tuple[str, ...], ...], note: Note
) -> tuple[str | None, ...]:
    """Of each sentence, by its first word."""
    if "speakers" not in fields:
        return (None,) * len(sentences)
    speakers = [row for row in fields.get("speakers", list_of(LIST)) if row]
    if [len(row) for row in speakers] != [len(sentence) for sentence in sentences]:
        raise BadRecordError(
            "wrong speakers", f"{key!r}: speakers, expected a name for each word"
        )
    for row in speakers:
        if len(set(map(str, row))) > 1:
            note("two speakers in a sentence", f"{key!r}: {shown(row[1])} is left out")
    return tuple(str(row[0]) or None for row in speakers)
