from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.data.mixture import Mixture

# Shares of a thousandth or more, in integers, so that expectations are exact.
WEIGHTS = st.lists(st.integers(1, 100), min_size=1, max_size=9)


def _draws(mixture, stop):
    """(sources, indices) of the positions 0 .. stop - 1."""
    blocks = [mixture.block(b) for b in range(-(-stop // mixture.block_size))]
    sources, indices = (np.concatenate(x)[:stop] for x in zip(*blocks, strict=True))
    return sources, indices


@settings(deadline=None, max_examples=30)
@given(weights=WEIGHTS, seed=st.integers(0, 2**64 - 1))
def test_no_source_is_a_draw_away_from_its_share_at_the_end_of_a_block(weights, seed):
    mixture = Mixture(weights, seed=seed)
    sources, _ = _draws(mixture, 10_000)
    for end in range(1000, 10_001, 1000):
        counts = np.bincount(sources[:end], minlength=len(weights)).tolist()
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - Fraction(weight * end, sum(weights))) < 1


def test_rates_over_ten_thousand_draws_are_within_one_percent():
    weights = np.array([0.6, 0.25, 0.1, 0.05])
    sources, _ = _draws(Mixture(weights, seed=5), 10_000)
    shares = np.bincount(sources) / 10_000
    np.testing.assert_allclose(shares, weights, rtol=0.01)
    # At any position, not only at the ends of blocks, rates are those of a draw.
    running = np.cumsum(sources[:, None] == np.arange(4), axis=0)
    expected = np.arange(1, 10_001)[:, None] * weights
    assert np.abs(running - expected).max() < 4 * np.sqrt(1000 * 0.25)


@settings(deadline=None, max_examples=30)
@given(weights=WEIGHTS, seed=st.integers(0, 100))
def test_indices_of_each_source_have_no_gap(weights, seed):
    sources, indices = _draws(Mixture(weights, seed=seed), 3500)
    for source in range(len(weights)):
        own = indices[sources == source]
        np.testing.assert_array_equal(own, np.arange(len(own)))


@settings(deadline=None, max_examples=20)
@given(
    weights=WEIGHTS, positions=st.lists(st.integers(0, 5999), min_size=1, max_size=30)
)
def test_random_access_equals_reading_in_order(weights, positions):
    sources, indices = _draws(Mixture(weights, seed=1), 6000)
    mixture = Mixture(weights, seed=1)
    for position in positions:
        place = mixture.locate(position)
        assert place == (sources[position], indices[position])


def test_far_positions_are_exact_and_cost_no_more():
    weights = [0.1, 0.2, 0.7]
    mixture = Mixture(weights, seed=0)
    number = 10**15
    before, block = mixture.block(number - 1), mixture.block(number)
    for source, weight in enumerate(weights):
        # The running index goes on from block to block, near the exact share.
        last = before.indices[before.sources == source][-1]
        own = block.indices[block.sources == source]
        np.testing.assert_array_equal(own, last + 1 + np.arange(len(own)))
        share = Fraction(weight) / sum(map(Fraction, weights))
        assert abs(int(own[0]) - share * number * 1000) < 1


def test_order_inside_a_block_is_random_and_depends_on_the_seed():
    blocks = [Mixture([1, 1], seed=s).block(b).sources for s in (0, 1) for b in (0, 1)]
    for i, a in enumerate(blocks):
        assert a.sum() == 500
        changes = (np.diff(a) != 0).sum()
        assert 400 < changes < 600  # 499.5 in the mean, standard deviation 16
        for b in blocks[:i]:
            assert 400 < (a == b).sum() < 600
    again = Mixture([1, 1], seed=1).block(1).sources
    np.testing.assert_array_equal(again, blocks[3])


def test_a_rare_source_makes_longer_blocks_and_keeps_its_rate():
    mixture = Mixture([1.0, 1.0, 1e-4], seed=0)
    assert mixture.block_size == 20_001
    sources, indices = _draws(mixture, 5 * mixture.block_size)
    assert (sources == 2).sum() == 5
    np.testing.assert_array_equal(indices[sources == 2], np.arange(5))


def test_counts_of_rare_sources_never_go_back():
    # With blocks of 1000, the first of these would go back at block 77.
    weights = [2e-4, 3e-4, 4e-4, 6e-4, 0.5, 0.5]
    mixture = Mixture(weights, seed=0)
    sources, indices = _draws(mixture, 100_000)
    for source in range(len(weights)):
        own = indices[sources == source]
        np.testing.assert_array_equal(own, np.arange(len(own)))


def test_one_source_is_read_in_order():
    assert [Mixture([3.5], seed=0).locate(p) for p in (0, 7, 123_456)] == [
        (0, 0),
        (0, 7),
        (0, 123_456),
    ]


def test_rates_are_normalised_weights():
    assert Mixture([3, 1], seed=0).rates == (0.75, 0.25)


@pytest.mark.parametrize(
    "weights, message",
    [
        ([], "at least one source"),
        ([1.0, 0.0], r"weight 1 of \[1.0, 0.0\] is not a positive number; leave out"),
        ([-1.0, 2.0], "weight 0 .* is not a positive number"),
        ([1.0, float("nan")], "weight 1 .* is not a positive number"),
        ([1.0, float("inf")], "weight 1 .* is not a positive number"),
        ([1.0, 1e-9], "weight 1 .* is 1e-09 of all, expected at least 1e-06"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        Mixture(weights, seed=0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_out_of_range_is_an_error(seed):
    with pytest.raises(ValueError, match="seed must be in"):
        Mixture([1.0], seed=seed)


def test_negative_positions_are_an_error():
    with pytest.raises(IndexError, match="positions begin at 0"):
        Mixture([1.0], seed=0).locate(-1)
