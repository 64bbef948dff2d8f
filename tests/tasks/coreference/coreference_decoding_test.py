"""Antecedents to clusters, by hand."""

import numpy as np
import pytest

from etc_jax.models.coreference import MASKED, SpanPairs
from etc_jax.tasks.coreference.decoding import decode
from etc_jax.tasks.coreference.inputs import Candidates


def candidates(*spans) -> Candidates:
    first, last = np.array(spans, np.int32).T
    zeros = np.zeros(len(spans), np.int32)
    return Candidates(first, last, first, last, zeros, zeros == 0, 0)


def pairs(best, *, top_spans=None, mention_scores=None) -> SpanPairs:
    """Each kept span has all before it as antecedents; `best` is one, or None."""
    k = len(best)
    antecedents = np.tril(np.arange(k)[None] * np.ones((k, 1), int), -1)
    mask = np.tril(np.ones((k, k), bool), -1)
    scores = np.where(mask, -1.0, MASKED)
    for i, choice in enumerate(best):
        if choice is not None:
            scores[i, choice] = 2.0
    return SpanPairs(
        top_spans=np.arange(k) if top_spans is None else np.array(top_spans),
        top_mask=np.ones(k, bool),
        mention_scores=np.ones(k) if mention_scores is None else mention_scores,
        antecedents=antecedents,
        antecedent_mask=mask,
        scores=np.concatenate([np.zeros((k, 1)), scores], axis=1),
    )


SPANS = candidates((0, 1), (3, 4), (5, 5), (7, 7), (9, 9))


def test_chains_become_clusters():
    got = decode(pairs([None, None, 0, 1, 2]), SPANS)
    assert got == (((0, 1), (5, 5), (9, 9)), ((3, 4), (7, 7)))
    assert all(type(word) is int for c in got for span in c for word in span)


def test_kept_spans_are_looked_up_among_the_candidates():
    got = decode(pairs([None, 0], top_spans=[1, 4]), SPANS)
    assert got == (((3, 4), (9, 9)),)


def test_spans_alone_are_kept_if_asked_and_scored_as_mentions():
    x = pairs([None, None, 0, None, None], mention_scores=np.array([1, -1, 1, 2, 0.0]))
    assert decode(x, SPANS) == (((0, 1), (5, 5)),)
    got = decode(x, SPANS, keep_singletons=True)
    assert got == (((0, 1), (5, 5)), ((7, 7),))


def test_no_antecedent_wins_a_tie():
    x = pairs([None, None])
    x.scores[1, 1] = 0.0
    assert decode(x, SPANS) == ()
    x.scores[1, 1] = 1e-3
    assert decode(x, SPANS) == (((0, 1), (3, 4)),)


def test_padding_joins_nothing():
    x = pairs([None, 0, 0])._replace(top_mask=np.array([True, True, False]))
    x.scores[2] = np.nan
    assert decode(x, SPANS) == (((0, 1), (3, 4)),)
    assert decode(x._replace(top_mask=np.zeros(3, bool)), SPANS) == ()


def test_of_crossing_mentions_of_a_cluster_the_best_stays():
    spans = candidates((0, 2), (1, 1), (2, 4), (3, 3), (4, 5))
    best = [None, 0, 0, None, 3]
    got = decode(pairs(best, mention_scores=np.array([1, 1, 3, 1, 1.0])), spans)
    # (2, 4) and (4, 5) cross as well, but are of two clusters.
    assert got == (((1, 1), (2, 4)), ((3, 3), (4, 5)))
    got = decode(pairs(best, mention_scores=np.array([2, 1, 1, 1, 1.0])), spans)
    assert got == (((0, 2), (1, 1)), ((3, 3), (4, 5)))


def test_a_cluster_left_with_one_mention_is_none():
    spans = candidates((0, 2), (1, 4))
    assert decode(pairs([None, 0]), spans) == ()
    assert decode(pairs([None, 0]), spans, keep_singletons=True) == (((0, 2),),)


def test_nan_is_refused():
    x = pairs([None, 0])
    x.scores[1, 1] = np.nan
    with pytest.raises(ValueError, match="hold NaN"):
        decode(x, SPANS)
