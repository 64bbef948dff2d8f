"""Queries with long passages, from documents alone: the inverse cloze task.

A paragraph is taken out of its passage, and is to find it among all others (Lee, Chang
and Toutanova 2019, section 4). Passages here are long, and queries are drawn from
anywhere in them, or from far behind, so that reading the first tokens is not enough.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Sequence

from etc_jax.base.rules import at_least
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.long_texts import LengthFn


@dataclasses.dataclass(frozen=True)
class Cloze:
    """How passages are cut and queries drawn; lengths are in tokens or words.

    Attributes:
      length: of a passage with its queries, at most, unless a paragraph has more.
      least: of a query.
      queries: of a passage, at most.
      after: of a passage that stands before its queries, at least.
      seed: of what is drawn.
    """

    length: int
    least: int = 20
    queries: int = 1
    after: int = 0
    seed: int = 0

    def __post_init__(self):
        counted = {"length": self.length, "least": self.least, "queries": self.queries}
        at_least(1).check(**counted)
        at_least(0).check(after=self.after)
        if self.after + self.least > self.length:
            raise ValueError(
                f"after is {self.after} and least {self.least}, more than length = "
                f"{self.length}: no passage has room for a query; lower them"
            )


@dataclasses.dataclass(frozen=True)
class Pair:
    """A query and its passage.

    Attributes:
      id: of the document, the number of the passage in it, and that of the query.
      query: a paragraph.
      passage: the other paragraphs, with blank lines between them.
    """

    id: str
    query: str
    passage: str


def pairs(
    documents: Iterable[Document], length_fn: LengthFn, cloze: Cloze
) -> Iterator[Pair]:
    """The pairs of documents, in order.

    A passage without a paragraph that can be a query gives none.

    Args:
      documents: read once, as a stream.
      length_fn: what is counted.
      cloze: how.

    Raises:
      ValueError: at the end, if there is none.
    """
    count = 0
    for document in documents:
        rng = random.Random(f"cloze {cloze.seed} {document.name}")
        for number, passage in enumerate(_passages(document, length_fn, cloze.length)):
            for pair in _drawn(f"{document.name}-{number}", passage, cloze, rng):
                count += 1
                yield pair
    if not count:
        raise ValueError(
            f"no passage of {cloze.length:,} has a paragraph of {cloze.least:,} or "
            f"more behind its first {cloze.after:,}, and others besides; give other "
            "documents or other lengths"
        )


def _passages(
    document: Document, length_fn: LengthFn, most: int
) -> Iterator[list[tuple[str, int]]]:
    """Paragraphs with their lengths, as many as fit."""
    lengths = length_fn([Document(document.name, (x,)) for x in document.paragraphs])
    passage: list[tuple[str, int]] = []
    filled = 0
    for paragraph, length in zip(document.paragraphs, lengths, strict=True):
        if passage and filled + length > most:
            yield passage
            passage, filled = [], 0
        passage.append((paragraph, length))
        filled += length
    if passage:
        yield passage


def _drawn(
    name: str, passage: Sequence[tuple[str, int]], cloze: Cloze, rng: random.Random
) -> Iterator[Pair]:
    """The pairs of a passage, none of whose queries it has."""
    may, before = [], 0
    for i, (_, length) in enumerate(passage):
        if before >= cloze.after and length >= cloze.least:
            may.append(i)
        before += length
    # One paragraph at least stays.
    count = min(cloze.queries, len(may), len(passage) - 1)
    drawn = sorted(rng.sample(may, count))
    rest = "\n\n".join(x for i, (x, _) in enumerate(passage) if i not in drawn)
    for number, i in enumerate(drawn):
        yield Pair(f"{name}-{number}", passage[i][0], rest)
