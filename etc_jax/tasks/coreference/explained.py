"""The mentions of a text with the number of the entity that each is of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from etc_jax.datasets.explained import Explained, ExplainedDocument, Passage, Wording
from etc_jax.tasks.coreference.decoding import pool
from etc_jax.tasks.coreference.records import Clusters, Record, Span

WORDING = Wording(
    question="Text",
    answer="Found",
    support="",
    legend="Marked: mentions, with the number of their entity.",
    headed_by_id=True,
)


def pool_explained(of_windows: Sequence[tuple[Record, Clusters]]) -> Explained:
    """What a reader is shown of a record."""
    record = of_windows[0][0]
    clusters = pool([predicted for _, predicted in of_windows])
    return Explained(
        record.id,
        "Who and what is mentioned more than once?",
        _counted(clusters),
        (
            ExplainedDocument(
                Passage(record.document), tuple(_sentences(record, clusters))
            ),
        ),
        reference=None if record.clusters is None else _counted(record.clusters),
        prediction=clusters,
        wording=WORDING,
    )


def _counted(clusters: Sequence[Sequence[Span]]) -> str:
    return f"{len(clusters)} entities with {sum(map(len, clusters))} mentions"


def _sentences(record: Record, clusters: Sequence[Sequence[Span]]) -> Iterator[Passage]:
    of_mention = sorted(
        (*mention, number)
        for number, cluster in enumerate(clusters, 1)
        for mention in cluster
    )
    before = 0
    for words in record.sentences:
        mentions = [
            (first - before, last - before, number)
            for first, last, number in of_mention
            if before <= first < before + len(words)
        ]
        before += len(words)
        yield _sentence(words, mentions)


def _sentence(words: Sequence[str], mentions: Sequence[tuple[int, int, int]]):
    """A sentence with its words marked run by run, as mentions may hold others."""
    starts = [0, *itertools.accumulate(len(word) + 1 for word in words)]
    inside = [
        tuple(n for first, last, n in mentions if first <= word <= last)
        for word in range(len(words))
    ]
    marks, ranks, word = [], [], 0
    for numbers, run in itertools.groupby(inside):
        stop = word + len(list(run))
        if numbers:
            marks.append((starts[word], starts[stop] - 1))
            ranks.append(numbers)
        word = stop
    return Passage(" ".join(words), marks=tuple(marks), ranks=tuple(ranks))
