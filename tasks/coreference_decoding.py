"""Scores of antecedents to clusters of mentions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etc_jax.models.coreference import SpanPairs
from tasks.coreference_features import Candidates
from tasks.coreference_records import Clusters, Span


def decode(
    pairs: SpanPairs, candidates: Candidates, *, keep_singletons: bool = False
) -> Clusters:
    """The clusters of a document: each span joins that of its best antecedent.

    Mentions of one cluster that cross are left out but for those of the highest mention
    scores: files of coreference cannot say them.

    Args:
      pairs: what the model gave for the candidates, as numpy arrays.
      candidates: of the document.
      keep_singletons: whether a mention alone is a cluster, as in LitBank: a kept span
        whose mention score is above 0. OntoNotes has none.

    Returns:
      Clusters of (first word, last word), by their first mentions, to be scored by
      `etc_jax.scoring.coreference`.

    Raises:
      ValueError: if a score is NaN.
    """
    number = int(np.count_nonzero(pairs.top_mask))
    if np.isnan(pairs.scores[:number]).any():
        raise ValueError("scores of antecedents hold NaN; expected numbers")
    mention_scores = np.asarray(pairs.mention_scores)
    clusters = _joined(pairs, number)
    found = []
    for members in clusters:
        if len(members) == 1 and mention_scores[members[0]] <= 0:
            continue
        scored = {_span(pairs, candidates, i): mention_scores[i] for i in members}
        spans = _without_crossings(scored)
        if len(spans) > 1 or keep_singletons:
            found.append(tuple(spans))
    return tuple(sorted(found))


def _joined(pairs: SpanPairs, number: int) -> list[list[int]]:
    """Kept spans by cluster, those alone among them."""
    clusters: list[list[int]] = []
    cluster_of: list[list[int]] = []
    best = np.argmax(pairs.scores[:number], axis=1)
    for span, choice in enumerate(best):
        if choice == 0:
            clusters.append([])
            cluster_of.append(clusters[-1])
        else:
            cluster_of.append(cluster_of[pairs.antecedents[span, choice - 1]])
        cluster_of[-1].append(span)
    return clusters


def _span(pairs: SpanPairs, candidates: Candidates, index: int) -> Span:
    place = pairs.top_spans[index]
    return int(candidates.first_words[place]), int(candidates.last_words[place])


def _without_crossings(scored: dict[Span, float]) -> Sequence[Span]:
    """The spans in order, the one of the lower score of two that cross left out."""
    kept: list[Span] = []
    for span in sorted(scored, key=lambda span: (-scored[span], span)):
        if not any(_cross(span, other) for other in kept):
            kept.append(span)
    return sorted(kept)


def _cross(a: Span, b: Span) -> bool:
    """Whether each has words that the other lacks, and they have some in common."""
    (first, last), (other_first, other_last) = sorted([a, b])
    return first < other_first <= last < other_last
