import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_jax.data import packing
from etc_jax.data.cache import TokenCache


def _cache(documents, word_share=0.7, seed=0):
    """Documents as sentence lengths; words start at random places."""
    lengths = np.array([n for d in documents for n in d], np.int64)
    offsets = np.cumsum([0, *lengths])
    words = np.random.default_rng(seed).random(offsets[-1]) < word_share
    words[offsets[:-1]] = True
    return TokenCache.from_arrays(
        np.zeros(offsets[-1], np.uint16),
        words,
        offsets,
        np.cumsum([0, *map(len, documents)]),
        vocab_size=1,
    )


def _windows(plan):
    return [
        [tuple(row) for row in plan.window(i).tolist()] for i in range(plan.num_windows)
    ]


def test_short_documents_share_a_window_and_long_ones_are_split():
    cache = _cache([[4, 4, 4], [3, 3], [2], [3, 4, 4, 4]])
    plan = packing.pack(
        cache,
        long_length=12,
        global_length=4,
        max_sentence_tokens=12,
        min_sentences=2,
    )
    # Document 3 is split after 11 tokens; its last 4 join the 6 of document 1.
    assert _windows(plan) == [[(0, 0, 3)], [(3, 6, 9)], [(1, 3, 5), (3, 9, 10)]]
    counts = plan.counts
    assert (counts.documents, counts.documents_dropped) == (3, 1)
    assert (counts.tokens, counts.tokens_dropped) == (33, 2)
    assert (counts.sentences, counts.sentences_split) == (9, 0)
    assert (counts.pieces, counts.windows) == (4, 3)
    assert counts.fill == pytest.approx(33 / 36)


def test_sentences_fill_a_window_too():
    plan = packing.pack(
        _cache([[1] * 7, [1] * 7]),
        long_length=100,
        global_length=5,
        max_sentence_tokens=5,
    )
    assert [[(stop - first) for _, first, stop in w] for w in _windows(plan)] == [
        [5],
        [5],
        [2, 2],
    ]


def test_long_sentences_are_cut_between_words():
    words = np.zeros(20, bool)
    words[[0, 3, 9, 10, 14]] = True
    # Three parts of at most 8; the nearest word starts below thirds of 20 are 3 and 10.
    assert packing._cuts(words, 8).tolist() == [3, 9, 14]
    assert packing._cuts(np.zeros(20, bool), 8).tolist() == [7, 14]
    assert packing._cuts(np.ones(16, bool), 8).tolist() == [8]
    assert packing._cuts(np.ones(8, bool), 8).tolist() == []


DOCUMENTS = st.lists(
    st.lists(st.integers(1, 40), min_size=0, max_size=30), min_size=1, max_size=20
)


@settings(deadline=None, max_examples=150)
@given(
    documents=DOCUMENTS,
    long_length=st.integers(8, 64),
    global_length=st.integers(1, 12),
    limit=st.integers(1, 8),
    word_share=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_every_sentence_is_in_one_window_that_holds_it(
    documents, long_length, global_length, limit, word_share
):
    documents.append([1] * 7)  # one at least is kept
    cache = _cache(documents, word_share)
    plan = packing.pack(
        cache,
        long_length=long_length,
        global_length=global_length,
        max_sentence_tokens=limit,
    )
    offsets = plan.sentence_offsets
    assert np.diff(offsets).max() <= limit
    assert np.isin(cache.sentence_offsets, offsets).all()
    seen = np.zeros(cache.num_tokens, int)
    owner = np.repeat(np.arange(len(documents)), [sum(d) for d in documents])
    for window in _windows(plan):
        assert sum(offsets[b] - offsets[a] for _, a, b in window) <= long_length
        assert sum(b - a for _, a, b in window) <= global_length
        for document, first, stop in window:
            tokens = slice(offsets[first], offsets[stop])
            assert stop > first and (owner[tokens] == document).all()
            seen[tokens] += 1
    kept = np.array([len(d) >= 7 for d in documents])
    np.testing.assert_array_equal(seen, kept[owner])
    assert plan.counts.tokens == seen.sum()
    assert plan.counts.tokens + plan.counts.tokens_dropped == cache.num_tokens
    assert plan.counts.documents == kept.sum()
    assert plan.counts.sentences_split == sum(n > limit for d in documents for n in d)
    again = packing.pack(
        cache,
        long_length=long_length,
        global_length=global_length,
        max_sentence_tokens=limit,
    )
    assert _windows(again) == _windows(plan)


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_no_two_windows_could_be_one(lengths):
    windows = packing._best_fit_decreasing(
        np.array(lengths), np.ones(len(lengths), int), 50, 10**6
    )
    assert sorted(p for w in windows for p in w) == list(range(len(lengths)))
    sums = sorted(sum(lengths[p] for p in w) for w in windows)
    assert sums[-1] <= 50
    assert len(sums) == 1 or sums[0] + sums[1] > 50


def test_lengths_out_of_range_are_errors():
    cache = _cache([[5] * 7])
    with pytest.raises(ValueError, match="do not go together"):
        packing.pack(cache, long_length=64, global_length=8)
    with pytest.raises(ValueError, match="do not go together"):
        packing.pack(cache, long_length=512, global_length=0)
    with pytest.raises(ValueError, match="none of 1 documents has 8 sentences"):
        packing.pack(cache, long_length=512, global_length=64, min_sentences=8)
