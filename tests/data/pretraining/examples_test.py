"""One example: sizes, global tokens of both kinds, and what has no room."""

import numpy as np
import pytest
from toy_text import (
    AMPLE,
    G,
    N,
    cache_of,
    ids_of,
    make_cache,
    make_plan,
    original,
    take,
)

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import (
    PretrainingSizes,
    build_row,
    empty_batch,
    fitting_sentences,
)
from etc_jax.data.text import packing
from etc_jax.structure.builders import fixed_blocks, packed_documents

NO_CPC = masking.MaskingShares(cpc=0.0)


@pytest.fixture(scope="module")
def cache():
    return make_cache(60, longest=60)


@pytest.fixture(scope="module")
def blocks(cache):
    return make_plan(cache, global_tokens="fixed_blocks", tokens_per_block=11)


def _build(cache, plan, sizes, shares, epoch=0):
    """One batch with every window of a plan."""
    ids = ids_of(cache)
    batch = empty_batch(plan.num_windows, sizes, ids)
    for i in range(plan.num_windows):
        window = plan.read(cache, i)
        rng = masking.generator(0, epoch, i)
        build_row(batch, i, window, rng, ids=ids, shares=shares, sizes=sizes)
    return batch


def test_default_sizes():
    # 15 % of 4096 times 1.25 is 768; 10 % times 1.5 of 4096 and 512: 614.4, 76.8.
    assert PretrainingSizes.default(4096, 512) == PretrainingSizes(
        4096, 512, 768, 640, 80
    )
    assert PretrainingSizes.default(64, 8).cpc_long_length == 64
    assert PretrainingSizes.default(512, 64, mlm_capacity=7).mlm_capacity == 7
    assert PretrainingSizes.default(512, 64, NO_CPC) == PretrainingSizes(512, 64, 96)
    # Room for a longest sentence, where a multiple of the mean is less.
    longest = PretrainingSizes.default(512, 64, max_sentence_tokens=200)
    assert longest.cpc_long_length == 256


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((8, 8, 0, 8, 8), "mlm_capacity is 0, expected 1 or more"),
        ((0, 8, 8, 8, 8), "long_length is 0, expected 1 or more"),
        ((8, 8, 8, 9, 8), "cpc_long_length is 9, but more than 8"),
        ((8, 8, 8, 8, 0), "cpc_global_length is 0, expected 1 or more; CPC needs both"),
        ((8, 8, 8, 0, 8), "cpc_long_length is 0, expected 1 or more; CPC needs both"),
        ((8, 8, 8, -1, 0), "cpc_long_length is -1, expected 1 or more"),
    ],
)
def test_impossible_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        PretrainingSizes(*sizes)


def test_sentences_fit_in_the_order_in_which_they_were_drawn():
    lengths = np.array([5, 9, 2, 4, 7])
    selected = np.array([4, 1, 0, 2])

    def fitting(tokens, sentences):
        sizes = PretrainingSizes(100, 50, 10, tokens, sentences)
        return fitting_sentences(selected, lengths, sizes).tolist()

    assert fitting(23, 4) == [0, 1, 2, 4]
    assert fitting(22, 4) == [0, 1, 4]  # 7 + 9 + 5 are 21
    assert fitting(20, 4) == [1, 2, 4]
    assert fitting(23, 3) == [0, 1, 4]
    assert fitting(8, 4) == [4]
    assert fitting(1, 4) == []


def test_blocks_of_one_document_are_those_of_the_builder():
    cache = cache_of([[30] * 10], words=1.0)
    plan = packing.pack(
        cache,
        long_length=320,
        global_length=10,
        global_tokens="fixed_blocks",
        tokens_per_block=97,
    )
    batch = _build(cache, plan, PretrainingSizes(320, 10, 64), NO_CPC)
    structure = take(batch["structure"], 0)
    expected = fixed_blocks(300, 97, long_length=320, global_length=10)
    for name in ("long_example_ids", "global_example_ids"):
        np.testing.assert_array_equal(getattr(structure, name), getattr(expected, name))
    # The builder goes on counting in the padding, which nothing sees.
    np.testing.assert_array_equal(structure.links[:300], expected.links[:300])
    assert (structure.links[300:] == -1).all()
    assert batch["global_tokens"][0].tolist() == [1] * 4 + [0] * 6


def test_blocks_of_packed_documents(cache, blocks):
    batch = _build(cache, blocks, PretrainingSizes(N, G, 64), NO_CPC)
    assert "cpc_long_tokens" not in batch
    num_pieces = np.diff(blocks.window_offsets)
    assert num_pieces.max() > 1
    for row in range(blocks.num_windows):
        spans = [
            (blocks.segment_offsets[a], blocks.segment_offsets[b])
            for _, a, b in blocks.window(row)
        ]
        lengths = [
            [min(11, end - start) for start in range(first, end, 11)]
            for first, end in spans
        ]
        expected = packed_documents(lengths, long_length=N, global_length=G)
        got = take(batch["structure"], row)
        for name in ("long_example_ids", "global_example_ids", "links"):
            np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
        text = np.concatenate([cache.tokens[a:b] for a, b in spans])
        np.testing.assert_array_equal(original(batch, row)[0], text)


def test_blocks_do_not_cut_words(cache, blocks):
    word_of = np.cumsum(cache.word_starts(0, cache.num_tokens)) - 1
    size = np.bincount(word_of)
    across = np.isin(blocks.segment_offsets[:-1], np.flatnonzero(np.diff(word_of)) + 1)
    assert (~across).sum() > 20  # blocks that begin within a word
    batch = _build(cache, blocks, PretrainingSizes(N, G, N), NO_CPC)
    for row in range(blocks.num_windows):
        real = batch["mlm_weights"][row] > 0
        words = word_of[batch["mlm_targets"][row][real] - 104]
        masked, count = np.unique(words, return_counts=True)
        np.testing.assert_array_equal(count, size[masked])


def test_a_word_that_a_cut_sentence_ends_in_stays_whole_within_a_block():
    cache = cache_of([[100] * 7], words=0.0)  # seven sentences, each one word
    words = cache.word_starts(0, 700)
    plan = packing.pack(
        cache,
        long_length=256,
        global_length=40,
        max_sentence_tokens=40,
        global_tokens="fixed_blocks",
        tokens_per_block=10,
    )
    for i in range(plan.num_windows):
        start = plan.segment_offsets[plan.window(i)[0, 1]]
        window = plan.read(cache, i)
        expected = words[start : start + len(window.tokens)].copy()
        expected[0] = True  # where a window begins, a word begins
        np.testing.assert_array_equal(window.word_starts, expected)


def test_overflow_is_told_for_each_example(cache):
    plan = make_plan(cache)
    shares = masking.MaskingShares()
    ample = _build(cache, plan, AMPLE, shares)
    tight = _build(cache, plan, PretrainingSizes(N, G, 16, 24, 2), shares)
    assert not ample["mlm_overflow"].any() and not ample["cpc_overflow"].any()
    lost = ample["cpc_weights"].sum(1) - tight["cpc_weights"].sum(1)
    np.testing.assert_array_equal(tight["cpc_overflow"], lost)
    assert 0 < (lost > 0).sum() < len(lost)
    # With 15 % wanted of what CPC leaves, 16 places are too few for a full window.
    wanted = tight["mlm_overflow"] + tight["mlm_weights"].sum(1)
    text = (tight["structure"].long_example_ids > 0).sum(1)
    rest = text - (tight["cpc_structure"].long_example_ids > 0).sum(1)
    longest_word = np.diff(np.flatnonzero(cache.word_starts(0, cache.num_tokens))).max()
    assert (np.abs(wanted - 0.15 * rest) < longest_word).all()
