"""The words of a record with their tags, beside those that are right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from etc_jax.datasets.explained import Explained, ExplainedDocument, Passage, Wording
from etc_jax.tasks.token_classification.decoding import TagRuns, Tags, pool
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.schemes import TaggedSpan, spans_of

WORDING = Wording(
    question="Text",
    answer="",
    support="",
    legend="Coloured: what is tagged, each tag in a colour of its own. A line under "
    "it: the other column has not the same.",
    headed_by_id=True,
    side_by_side=True,
)
# From the tags of a sentence to what is shown of them.
ReadFn = Callable[[Sequence[str]], list[TaggedSpan]]


def pool_entities(
    seen: Sequence[tuple[Record, TagRuns]], read: ReadFn = spans_of
) -> Explained:
    """The entities of a record, and the gold ones beside them if there are some.

    Args:
      seen: (record, tags of its words) of all windows of a record.
      read: tags of a sentence -> its entities.
    """
    record, tags = seen[0][0], pool([runs for _, runs in seen])
    spans = [read(of_sentence) for of_sentence in tags]
    gold = None
    if record.tags is not None:
        gold = [read(of_sentence) for of_sentence in record.tags]
    documents = [_document("Predicted", record, spans, gold)]
    if gold is not None:
        documents.append(_document("Gold", record, gold, spans))
    return Explained(
        record.id,
        "",
        _listed(record, spans),
        tuple(documents),
        reference=None if gold is None else _listed(record, gold),
        prediction=_as_json(record, tags, spans),
        wording=WORDING,
    )


def _each_word(tags: Sequence[str]) -> list[TaggedSpan]:
    return [TaggedSpan(word, word + 1, tag) for word, tag in enumerate(tags)]


# The tags of a record's words, and the gold ones beside them if there are some.
pool_plain = functools.partial(pool_entities, read=_each_word)


def _as_json(record: Record, tags: Tags, spans: list[list[TaggedSpan]]):
    """The tags of words, or, of a text, its spans in characters."""
    if record.text_words is None:
        return tags
    return [list(span) for span in character_spans(record, spans)]


def character_spans(
    record: Record, spans: Sequence[Sequence[TaggedSpan]]
) -> list[tuple[int, int, str]]:
    """(first, one past the last character, type) of the spans of a text's sentences."""
    return [
        (offsets[start][0], offsets[stop - 1][1], kind)
        for offsets, of_sentence in zip(record.text_words.offsets, spans, strict=True)
        for start, stop, kind in of_sentence
    ]


def _listed(record: Record, spans: Sequence[Sequence[TaggedSpan]]) -> str:
    return ", ".join(
        f"{' '.join(words[start:stop])} ({kind})"
        for words, of_sentence in zip(record.sentences, spans, strict=True)
        for start, stop, kind in of_sentence
    )


def _document(
    title: str,
    record: Record,
    spans: Sequence[Sequence[TaggedSpan]],
    others: Sequence[Sequence[TaggedSpan]] | None,
) -> ExplainedDocument:
    passages = tuple(
        _passage(words, spans[i], None if others is None else others[i])
        for i, words in enumerate(record.sentences)
    )
    return ExplainedDocument(Passage(title), passages, paragraphs=True)


def _passage(
    words: Sequence[str],
    spans: Sequence[TaggedSpan],
    others: Sequence[TaggedSpan] | None,
) -> Passage:
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    starts = [0, *(ends[:-1] + 1).tolist()]
    return Passage(
        " ".join(words),
        marks=tuple((starts[x.start], int(ends[x.stop - 1])) for x in spans),
        names=tuple(x.type for x in spans),
        doubted=tuple(others is not None and x not in others for x in spans),
    )
