"""Coreference: MUC, B³, CEAF-e and their mean, as CoNLL-2012's scorer 8.01 counts them.

Numerators and denominators are summed over documents before anything is divided.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.scoring.answers import harmonic_mean
from etc_jax.scoring.result import Scores

Mention = Hashable
Clusters = Sequence[frozenset[Mention]]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A sum over documents that is divided at the end."""

    numerator: float = 0.0
    denominator: float = 0.0

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(
            self.numerator + other.numerator, self.denominator + other.denominator
        )

    @property
    def value(self) -> float:
        """The ratio; 0 if there is nothing to divide by."""
        return self.numerator / self.denominator if self.denominator else 0.0


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Recall and precision of a metric."""

    recall: Ratio = Ratio()
    precision: Ratio = Ratio()

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(self.recall + other.recall, self.precision + other.precision)

    @property
    def f1(self) -> float:
        return harmonic_mean(self.precision.value, self.recall.value)


def _muc(clusters: Clusters, others: Clusters) -> Ratio:
    """Links of each cluster that the others keep (Vilain et al. 1995)."""
    of = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    shared_links = links = 0
    for cluster in clusters:
        # A mention that the others do not have is a part of its own.
        parts = {of.get(mention, mention) for mention in cluster}
        shared_links += len(cluster) - len(parts)
        links += len(cluster) - 1
    return Ratio(shared_links, links)


def _b_cubed(clusters: Clusters, others: Clusters) -> Ratio:
    """For each mention, the share of its cluster that stays with it (Bagga 1998)."""
    # Of a mention |A ∩ B| / |A|, and |A ∩ B| mentions have that.
    shared = sum(
        len(cluster & other) ** 2 / len(cluster)
        for cluster in clusters
        for other in others
    )
    return Ratio(shared, sum(map(len, clusters)))


def _ceaf_e(clusters: Clusters, others: Clusters) -> float:
    """How alike clusters are when each has one partner at most (Luo 2005, φ4)."""
    # Two thirds of a second to import, for one of many metrics.
    from scipy.optimize import linear_sum_assignment

    alike = np.array(
        [[2 * len(a & b) / (len(a) + len(b)) for b in others] for a in clusters]
    )
    if not alike.size:
        return 0.0
    return float(alike[linear_sum_assignment(alike, maximize=True)].sum())


def muc(gold: Clusters, predicted: Clusters) -> Agreement:
    """MUC of a document."""
    return Agreement(_muc(gold, predicted), _muc(predicted, gold))


def b_cubed(gold: Clusters, predicted: Clusters) -> Agreement:
    """B³ of a document."""
    return Agreement(_b_cubed(gold, predicted), _b_cubed(predicted, gold))


def ceaf_e(gold: Clusters, predicted: Clusters) -> Agreement:
    """CEAF by entities of a document."""
    alike = _ceaf_e(gold, predicted)
    return Agreement(Ratio(alike, len(gold)), Ratio(alike, len(predicted)))


METRICS: Mapping[str, Callable[[Clusters, Clusters], Agreement]] = {
    "muc": muc,
    "b_cubed": b_cubed,
    "ceaf_e": ceaf_e,
}


def agreements(
    gold: Mapping[str, Sequence[Any]], predictions: Mapping[str, Sequence[Any]]
) -> dict[str, Agreement]:
    """Each metric over all gold documents; arguments as of `score`."""
    total = dict.fromkeys(METRICS, Agreement())
    for document, clusters in gold.items():
        pair = (
            checked_clusters(clusters, f"gold {document!r}"),
            checked_clusters(predictions.get(document, ()), f"predicted {document!r}"),
        )
        for name, metric in METRICS.items():
            total[name] += metric(*pair)
    return total


def score(
    gold: Mapping[str, Sequence[Any]], predictions: Mapping[str, Sequence[Any]]
) -> Scores:
    """F1, recall, precision of each metric, and `conll_f1`, the mean of the three F1.

    Args:
      gold: by document, clusters of mentions, each (first word, last word). Spans must
        be equal to agree; clusters of one mention count as they do in the official
        scorer: in B³ and CEAF-e.
      predictions: clusters by document, as `gold`; a missing document has none.

    Raises:
      ValueError: if there is no gold document, or a mention is in two clusters.
    """
    if not gold:
        raise ValueError("gold: at least one document expected, got none")
    total = agreements(gold, predictions)
    metrics = {"conll_f1": sum(x.f1 for x in total.values()) / len(total)}
    for name, agreement in total.items():
        metrics |= {
            f"{name}_f1": agreement.f1,
            f"{name}_recall": agreement.recall.value,
            f"{name}_precision": agreement.precision.value,
        }
    return Scores.of(metrics, list(gold), {"clusters": predictions})


def checked_clusters(clusters: Sequence[Any], where: str) -> Clusters:
    """The clusters as sets of mentions.

    Raises:
      ValueError: naming `where` and the mention, if one is there twice or is no pair.
    """
    pairs = [[tuple(mention) for mention in cluster] for cluster in clusters]
    counts = collections.Counter(mention for cluster in pairs for mention in cluster)
    for mention, count in counts.items():
        if len(mention) != 2 or mention[0] > mention[1]:
            raise ValueError(
                f"{where}: a mention is {mention}; expected (first word, last word)"
            )
        if count > 1:
            raise ValueError(
                f"{where}: the mention {mention} is there {count} times; expected each "
                "in one cluster, once"
            )
    if not all(pairs):
        raise ValueError(f"{where}: a cluster has no mention")
    return [frozenset(cluster) for cluster in pairs]
