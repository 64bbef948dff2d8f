import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from toy_text import cache_of

from etc_jax.data.text import packing


def _windows(plan):
    return [
        [tuple(row) for row in plan.window(i).tolist()] for i in range(plan.num_windows)
    ]


def check_pieces(plan, documents, long_length, global_length):
    """Windows hold their pieces, and each token of a kept document is in one.

    Returns (first segment, one past the last) of every piece.
    """
    offsets, pieces = plan.segment_offsets, []
    owner = np.repeat(np.arange(len(documents)), [sum(d) for d in documents])
    seen = np.zeros(len(owner), int)
    for window in _windows(plan):
        assert sum(offsets[b] - offsets[a] for _, a, b in window) <= long_length
        assert sum(b - a for _, a, b in window) <= global_length
        for document, first, stop in window:
            tokens = slice(offsets[first], offsets[stop])
            assert stop > first and (owner[tokens] == document).all()
            seen[tokens] += 1
            pieces.append((first, stop))
    kept = np.array([len(d) >= 7 for d in documents])
    np.testing.assert_array_equal(seen, kept[owner])
    return pieces


def test_short_documents_share_a_window_and_long_ones_are_split():
    cache = cache_of([[4, 4, 4], [3, 3], [2], [3, 4, 4, 4]])
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
    assert (counts.sentences_of_text, counts.sentences_split) == (10, 0)
    assert counts.windows == 3
    assert counts.fill == pytest.approx(33 / 36)


def test_sentences_fill_a_window_too():
    plan = packing.pack(
        cache_of([[1] * 7, [1] * 7]),
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
    cache = cache_of(documents, words=word_share)
    sizes = {"long_length": long_length, "global_length": global_length}
    sizes["max_sentence_tokens"] = limit
    plan = packing.pack(cache, **sizes)
    offsets = plan.segment_offsets
    assert np.diff(offsets).max() <= limit
    assert np.isin(cache.sentence_offsets, offsets).all()
    check_pieces(plan, documents, long_length, global_length)
    kept = [sum(d) for d in documents if len(d) >= 7]
    assert (plan.counts.tokens, plan.counts.documents) == (sum(kept), len(kept))
    assert plan.counts.tokens + plan.counts.tokens_dropped == cache.num_tokens
    assert plan.counts.sentences_split == sum(n > limit for d in documents for n in d)
    assert _windows(packing.pack(cache, **sizes)) == _windows(plan)


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_no_two_windows_could_be_one(lengths):
    windows = packing.best_fit_decreasing(
        np.array(lengths), np.ones(len(lengths), int), 50, 10**6
    )
    assert sorted(p for w in windows for p in w) == list(range(len(lengths)))
    sums = sorted(sum(lengths[p] for p in w) for w in windows)
    assert sums[-1] <= 50
    assert len(sums) == 1 or sums[0] + sums[1] > 50


def _blocks(cache, **kwargs):
    kwargs = {"min_sentences": 1, "max_sentence_tokens": 8} | kwargs
    return packing.pack(cache, global_tokens="fixed_blocks", **kwargs)


def test_blocks_begin_anew_with_each_document_of_a_window():
    cache = cache_of([[4, 4, 4], [3, 2], [6, 6, 5]])
    plan = _blocks(cache, long_length=18, global_length=6, tokens_per_block=5)
    # 17 tokens, and 12 + 5 tokens; no block sees that sentences end at 4, 8, ...
    lengths = np.diff(plan.segment_offsets)
    found = [[lengths[a:b].tolist() for _, a, b in w] for w in _windows(plan)]
    assert found == [[[5, 5, 5, 2]], [[5, 5, 2], [5]]]
    assert [[d for d, _, _ in w] for w in _windows(plan)] == [[2], [0, 1]]
    assert plan.counts.sentences_of_text == 8


def test_the_text_of_a_split_document_is_that_with_sentences():
    cache = cache_of([[5] * 30, [7] * 9])
    sizes = {"long_length": 40, "global_length": 40, "max_sentence_tokens": 8}
    spans = []
    for plan in (
        packing.pack(cache, **sizes),
        packing.pack(cache, **sizes, global_tokens="fixed_blocks", tokens_per_block=6),
    ):
        offsets = plan.segment_offsets
        spans.append(
            sorted((d, offsets[a], offsets[b]) for w in _windows(plan) for d, a, b in w)
        )
    assert spans[0] == spans[1]
    assert len(spans[0]) > 4


@settings(deadline=None, max_examples=100)
@given(
    documents=DOCUMENTS,
    long_length=st.integers(8, 64),
    tokens_per_block=st.integers(1, 20),
    spare=st.integers(0, 5),
)
def test_every_block_is_full_but_the_last_of_its_piece(
    documents, long_length, tokens_per_block, spare
):
    documents.append([1] * 7)
    cache = cache_of(documents)
    global_length = -(-long_length // tokens_per_block) + spare
    plan = _blocks(
        cache,
        long_length=long_length,
        global_length=global_length,
        min_sentences=7,
        tokens_per_block=tokens_per_block,
    )
    lengths = np.diff(plan.segment_offsets)
    for first, stop in check_pieces(plan, documents, long_length, global_length):
        assert (lengths[first : stop - 1] == tokens_per_block).all()
        assert 1 <= lengths[stop - 1] <= tokens_per_block


@settings(deadline=None, max_examples=60)
@given(documents=DOCUMENTS, long_length=st.integers(8, 64))
def test_no_piece_could_take_the_next_sentence(documents, long_length):
    documents.append([1] * 7)
    plan = packing.pack(
        cache_of(documents),
        long_length=long_length,
        global_length=9,
        max_sentence_tokens=8,
    )
    offsets = plan.segment_offsets
    pieces = sorted(row for w in _windows(plan) for row in w)
    for (document, first, stop), after in zip(pieces, pieces[1:], strict=False):
        if after[0] == document:
            assert after[1] == stop
            longer = offsets[stop + 1] - offsets[first]
            assert longer > long_length or stop - first == 9


def test_rooms_give_the_fullest_window_that_is_sure_to_hold_a_piece():
    rooms = packing._Rooms(20, 10)  # a segment is worth 2 tokens
    rooms.add(0, free_tokens=5, free_segments=9)
    rooms.add(1, free_tokens=20, free_segments=3)  # room 6
    rooms.add(2, free_tokens=8, free_segments=9)
    rooms.add(3, free_tokens=20, free_segments=0)  # of no use to anything
    assert [rooms.need(*x) for x in ((4, 1), (4, 2), (4, 3), (7, 3))] == [4, 4, 6, 7]
    assert rooms.take(6, 4, 3) == (1, 20, 3)
    assert rooms.take(4, 4, 1) == (0, 5, 9)
    assert rooms.take(9, 9, 1) is None
    assert rooms.take(1, 1, 1) == (2, 8, 9)
    assert rooms.take(1, 1, 1) is None


@settings(deadline=None, max_examples=200)
@given(
    pieces=st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 7)), min_size=1, max_size=60
    ),
    long_length=st.integers(20, 41),
    global_length=st.integers(7, 60),
)
def test_windows_hold_their_pieces(pieces, long_length, global_length):
    tokens, segments = np.array(pieces).T
    segments = np.minimum(segments, tokens)  # none is empty
    windows = packing.best_fit_decreasing(tokens, segments, long_length, global_length)
    assert sorted(p for w in windows for p in w) == list(range(len(pieces)))
    for window in windows:
        assert tokens[window].sum() <= long_length
        assert segments[window].sum() <= global_length


def test_a_window_short_of_segments_takes_long_sentences():
    rooms = packing._Rooms(20, 10)
    rooms.add(0, free_tokens=9, free_segments=2)  # room 4
    rooms.add(1, free_tokens=3, free_segments=9)  # room 3
    assert rooms.take(10, 10, 1) is None
    assert rooms.take(8, 8, 3) is None
    assert rooms.take(8, 8, 1) == (0, 9, 2)
    assert rooms.take(8, 3, 4) == (1, 3, 9)


@pytest.mark.parametrize(
    "mean, global_length, most", [(14, 230, 1.02), (17.8, 230, 1.06), (26, 230, 1.01)]
)
def test_packing_many_documents_is_close_and_quick(mean, global_length, most):
    rng = np.random.default_rng(0)
    segments = np.clip(rng.lognormal(3, 1, 60_000).astype(int), 7, 200)
    tokens = (segments * mean * rng.lognormal(0, 0.25, len(segments))).astype(int)
    tokens = np.minimum(tokens, 4096)
    windows = packing.best_fit_decreasing(tokens, segments, 4096, global_length)
    assert sorted(p for w in windows for p in w) == list(range(len(tokens)))
    for size, room in ((tokens, 4096), (segments, global_length)):
        assert max(size[w].sum() for w in windows) <= room
    # No packing has fewer windows than what is scarcer fills.
    least = max(tokens.sum() / 4096, segments.sum() / global_length)
    assert len(windows) < most * least


@pytest.mark.parametrize(
    "lengths, message",
    [
        ({"long_length": 64}, "max_sentence_tokens is 128, more than long_length 64"),
        ({"global_length": 0}, "global_length is 0; expected 1 or more"),
        ({"max_sentence_tokens": 0}, "max_sentence_tokens is 0; expected 1 or more"),
        ({"min_sentences": 0}, "min_sentences is 0; expected 1 or more"),
        ({"min_sentences": 8}, "none of 1 documents has 8 sentences"),
        ({"global_tokens": "words"}, "global_tokens is 'words'; expected one of"),
        (
            {"global_tokens": "fixed_blocks", "tokens_per_block": 0},
            "tokens_per_block is 0; expected 1 or more",
        ),
        (
            {"global_tokens": "fixed_blocks", "global_length": 5},
            "512 long tokens in blocks of 97 take 6 global tokens, but global_length",
        ),
    ],
)
def test_lengths_out_of_range_are_errors(lengths, message):
    with pytest.raises(ValueError, match=message):
        packing.pack(
            cache_of([[5] * 7]), **({"long_length": 512, "global_length": 64} | lengths)
        )
