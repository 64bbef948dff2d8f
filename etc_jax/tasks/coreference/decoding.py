"""Scores of antecedents to clusters of mentions, and those to metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.datasets.decoding import SURE, require_gold
from etc_jax.scoring import coreference as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.coreference.inputs import Candidates
from etc_jax.tasks.coreference.records import Clusters, Record, Span
from etc_jax.tasks.coreference.windows import CoreferenceWindow


class Outputs(NamedTuple):
    """What a model gives for a document; see `etc_jax.models.coreference.SpanPairs`.

    Attributes:
      top_spans: `[k]`, candidates that are kept, in ascending order.
      top_mask: `[k]`, False after the last kept one.
      mention_scores: `[k]`.
      antecedents: `[k, c]`, kept spans, each below its row.
      antecedent_mask: `[k, c]`.
      scores: `[k, 1 + c]`, of having no antecedent, and of each.
    """

    top_spans: np.ndarray
    top_mask: np.ndarray
    mention_scores: np.ndarray
    antecedents: np.ndarray
    antecedent_mask: np.ndarray
    scores: np.ndarray


def decode(
    pairs: Outputs, candidates: Candidates, *, keep_singletons: bool = False
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
    predicted = []
    for members in clusters:
        if len(members) == 1 and mention_scores[members[0]] <= 0:
            continue
        scored = {_span(pairs, candidates, i): mention_scores[i] for i in members}
        spans = _without_crossings(scored)
        if len(spans) > 1 or keep_singletons:
            predicted.append(tuple(spans))
    return tuple(sorted(predicted))


def _joined(pairs: Outputs, number: int) -> list[list[int]]:
    """Kept spans by cluster, those alone among them."""
    clusters: list[list[int]] = []
    cluster_of: list[list[int]] = []
    # Column 0 is "no antecedent", column k antecedent k - 1. Antecedents come before
    # their span, so that each has a cluster already.
    best = np.argmax(pairs.scores[:number], axis=1)
    for span, choice in enumerate(best):
        if choice == 0:
            clusters.append([])
            cluster_of.append(clusters[-1])
        else:
            cluster_of.append(cluster_of[pairs.antecedents[span, choice - 1]])
        cluster_of[-1].append(span)
    return clusters


def _span(pairs: Outputs, candidates: Candidates, index: int) -> Span:
    candidate = pairs.top_spans[index]
    return int(candidates.first_words[candidate]), int(candidates.last_words[candidate])


def _without_crossings(scored: dict[Span, float]) -> Sequence[Span]:
    """The spans in order, the one of the lower score of two that cross left out."""
    chosen: list[Span] = []
    for span in sorted(scored, key=lambda span: (-scored[span], span)):
        if not any(_cross(span, other) for other in chosen):
            chosen.append(span)
    return sorted(chosen)


def _cross(a: Span, b: Span) -> bool:
    """Whether each has words that the other lacks, and they have some in common."""
    (first, last), (other_first, other_last) = sorted([a, b])
    return first < other_first <= last < other_last


# --- windows --------------------------------------------------------------------------


def decode_each(
    outputs: Outputs, windows: Sequence[CoreferenceWindow]
) -> list[Clusters]:
    """The clusters of each window.

    Args:
      outputs: with a first axis for the windows.
      windows: as `features` made them.

    Raises:
      ValueError: if the outputs are not of these windows, or hold NaN.
    """
    if len(outputs.scores) != len(windows):
        raise ValueError(
            f"outputs of {len(outputs.scores)} windows, but there are {len(windows)}; "
            "give the outputs of these windows, in their order"
        )
    return [
        decode(Outputs(*row), w.candidates, keep_singletons=w.singletons)
        for *row, w in zip(*outputs, windows, strict=True)
    ]


def pool(of_windows: Sequence[Clusters]) -> list[Any]:
    """The clusters of a document: those of its windows."""
    return sorted(cluster for clusters in of_windows for cluster in clusters)


def gold_outputs(windows: Sequence[CoreferenceWindow]) -> Outputs:
    """Outputs of a model that keeps the gold mentions and is sure of their links.

    Raises:
      ValueError: if a window has no gold clusters.
    """
    require_gold(windows, official_gold)
    rows = [_gold_pairs(window) for window in windows]
    k = max((len(row) for row in rows), default=0)
    b = len(windows)
    outputs = Outputs(
        top_spans=np.zeros((b, k), np.int32),
        top_mask=np.zeros((b, k), bool),
        mention_scores=np.zeros((b, k), np.float32),
        antecedents=np.zeros((b, k, 1), np.int32),
        antecedent_mask=np.zeros((b, k, 1), bool),
        scores=np.zeros((b, k, 2), np.float32),
    )
    outputs.scores[..., 1] = -SURE
    for i, row in enumerate(rows):
        for column, (span, antecedent) in enumerate(row):
            outputs.top_spans[i, column], outputs.top_mask[i, column] = span, True
            outputs.mention_scores[i, column] = SURE
            if antecedent is not None:
                outputs.antecedents[i, column, 0] = antecedent
                outputs.antecedent_mask[i, column, 0] = True
                outputs.scores[i, column, 1] = SURE
    return outputs


def _gold_pairs(window: CoreferenceWindow) -> list[tuple[int, int | None]]:
    """(candidate, number of the last mention of its cluster) of each gold mention."""
    clusters = window.labels["clusters"]
    last: dict[int, int] = {}
    rows = []
    for column, span in enumerate(np.flatnonzero(clusters).tolist()):
        rows.append((span, last.get(int(clusters[span]))))
        last[int(clusters[span])] = column
    return rows


def why_lost(
    windows: Sequence[CoreferenceWindow], prediction: Sequence[Any]
) -> Iterator[str]:
    """Why the windows of a record do not give its gold clusters back."""
    cluster_of = {tuple(m): i for i, c in enumerate(prediction) for m in c}
    candidates = {
        (int(first), int(last))
        for w in windows
        for first, last in zip(
            w.candidates.first_words, w.candidates.last_words, strict=True
        )
    }
    for cluster in windows[0].record.clusters:
        for mention in cluster:
            if mention not in candidates:
                yield (
                    f"mention {mention}: it has no token, more than --span_tokens, or "
                    "goes over the end of a part"
                )
            elif mention not in cluster_of:
                yield (
                    f"mention {mention}: in its window no other of its entity is left "
                    "to be linked with, or it crosses one"
                )
        clusters = {cluster_of[m] for m in cluster if m in cluster_of}
        if len(clusters) > 1:
            yield (
                f"entity of {cluster[0]}: its mentions are in {len(clusters)} windows, "
                "which are not linked"
            )


# --- metrics --------------------------------------------------------------------------


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a record; None without gold clusters."""
    if record.clusters is None:
        return None
    return {"id": record.id, "clusters": record.clusters}


def unread_gold(name: str) -> dict[str, Any]:
    """What scoring takes for a record that could not be read: a link not found."""
    return {"id": name, "clusters": [[(0, 0), (1, 1)]]}


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, Any]) -> Scores:
    """MUC, B³, CEAF-e and their mean; see `scoring.coreference.score`.

    Args:
      gold: of `official_gold`.
      predictions: clusters by record id.
    """
    return scoring.score({x["id"]: x["clusters"] for x in gold}, predictions)
