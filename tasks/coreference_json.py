"""Coreference as JSON lines, in the form that models of spans are trained from.

A line is a document, as Lee et al. (2017) write them, of which these keys are read:

    doc_key     name and number of the part, as "bn/abc/00/abc_0001_0"
    sentences   words of each sentence
    clusters    mentions of each entity, (first, last) word counted over the document;
                left out, or null, where nobody has told
    speakers    a name for each word of each sentence; may be left out
"""

from __future__ import annotations

import collections
from typing import Any

from tasks.coreference_records import Clusters, Record, Span
from tasks.records import BadRecordError, Fields, Note


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
    sentences = tuple(tuple(_words(key, s)) for s in fields.get("sentences", list))
    sentences = tuple(filter(None, sentences))
    if not sentences:
        raise BadRecordError("no text", f"{key!r} has no word")
    number = sum(map(len, sentences))
    given = fields.get("clusters", object) if "clusters" in fields else None
    clusters = None if given is None else _clusters(key, given, number)
    document, _, part = key.rpartition("_")
    if not (document and part.isascii() and part.isdecimal()):
        document, part = key, "0"
    speakers = _speakers(key, fields, sentences, note)
    return Record(document, part, sentences, speakers, clusters, key)


def _words(key: str, sentence: Any) -> list[str]:
    if not isinstance(sentence, list) or not all(
        isinstance(word, str) and word for word in sentence
    ):
        raise BadRecordError(
            "wrong type", f"{key!r}: sentence {sentence!r:.60}, expected words"
        )
    return sentence


def _clusters(key: str, value: Any, number: int) -> Clusters:
    if not isinstance(value, list) or not all(isinstance(x, list) for x in value):
        raise BadRecordError(
            "wrong type", f"{key!r}: clusters {value!r:.60}, expected lists of mentions"
        )
    cluster_of: dict[Span, int] = {}
    for number_of, mentions in enumerate(value):
        for mention in mentions:
            span = _span(key, mention, number)
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


def _span(key: str, mention: Any, number: int) -> Span:
    if isinstance(mention, list) and [type(x) for x in mention] == [int, int]:
        first, last = mention
        if 0 <= first <= last < number:
            return first, last
    raise BadRecordError(
        "wrong mention",
        f"{key!r}: mention {mention!r:.60}, expected [first, last] of {number} words",
    )


def _speakers(
    key: str, fields: Fields, sentences: tuple[tuple[str, ...], ...], note: Note
) -> tuple[str | None, ...]:
    """Of each sentence, by its first word."""
    if "speakers" not in fields:
        return (None,) * len(sentences)
    given = [row for row in fields.get("speakers", list) if row]
    lengths = [len(row) if isinstance(row, list) else -1 for row in given]
    if lengths != [len(sentence) for sentence in sentences]:
        raise BadRecordError(
            "wrong speakers", f"{key!r}: speakers, expected a name for each word"
        )
    for row in given:
        if len(set(map(str, row))) > 1:
            note("two speakers in a sentence", f"{key!r}: {row[1]!r:.40} is left out")
    return tuple(str(row[0]) or None for row in given)
