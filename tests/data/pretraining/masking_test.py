import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.data.pretraining import masking


def _rng(seed=0):
    return masking.generator(seed, 0, 0)


def test_generators_of_different_places_differ_and_of_the_same_agree():
    places = [
        (s, e, i, t) for s in (0, 1) for e in (0, 1) for i in (0, 7) for t in (0, 1)
    ]
    draws = [masking.generator(s, e, i, stream=t).random(4) for s, e, i, t in places]
    assert len({d.tobytes() for d in draws}) == len(places)
    again = [masking.generator(s, e, i, stream=t).random(4) for s, e, i, t in places]
    np.testing.assert_array_equal(draws, again)


@pytest.mark.parametrize(
    "num_sentences, expected",
    [(0, 0), (1, 0), (2, 1), (9, 1), (10, 1), (25, 2.5), (40, 4)],
)
def test_cpc_count_is_the_share_in_the_mean(num_sentences, expected):
    rng = _rng()
    counts = [
        len(masking.select_cpc_sentences(rng, num_sentences, 0.1)) for _ in range(4000)
    ]
    assert np.mean(counts) == pytest.approx(expected, abs=3 * 0.5 / 4000**0.5)
    assert max(counts) - min(counts) <= 1


def test_cpc_choice_is_uniform():
    rng = _rng()
    hits = np.zeros(20)
    for _ in range(5000):
        chosen = masking.select_cpc_sentences(rng, 20, 0.1)
        assert len(set(chosen.tolist())) == len(chosen) == 2
        hits[chosen] += 1
    # Chi-square with 19 degrees of freedom: 43.8 is the 99.9 % point.
    assert ((hits - 500) ** 2 / 500).sum() < 43.8


def test_never_all_sentences_are_masked():
    assert len(masking.select_cpc_sentences(_rng(), 5, 1.0)) == 4
    assert len(masking.select_cpc_sentences(_rng(), 5, 0.0)) == 0


@settings(deadline=None)
@given(
    words=st.lists(st.integers(1, 9), min_size=0, max_size=60),
    share=st.sampled_from([0.0, 0.05, 0.15, 0.5, 1.0]),
    capacity=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_words_are_chosen_whole_and_within_capacity(words, share, capacity, seed):
    starts = np.zeros(sum(words), bool)
    starts[np.cumsum([0, *words])[:-1][: len(words)]] = True
    chosen, overflow = masking.select_words(_rng(seed), starts, share, capacity)
    per_word = np.split(chosen, np.cumsum(words)[:-1]) if words else []
    assert all(w.all() or not w.any() for w in per_word)
    assert chosen.sum() <= capacity
    unbounded, none = masking.select_words(_rng(seed), starts, share, 10**6)
    assert none == 0
    assert chosen.sum() + overflow == unbounded.sum()
    assert not (chosen & ~unbounded).any()
    # At most one word goes beyond the budget.
    assert unbounded.sum() < share * len(starts) + max(words, default=1)


def test_share_of_tokens_is_exact_in_the_mean():
    starts = np.array([1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0], bool)
    rng = _rng()
    counts = [
        masking.select_words(rng, starts, 0.15, 99)[0].sum() for _ in range(20_000)
    ]
    error = np.std(counts) / len(counts) ** 0.5
    assert np.mean(counts) == pytest.approx(0.15 * 11, abs=3 * error)


def test_corruption_shares_and_ids():
    targets = np.full(100_000, 150, np.int32)
    shown = masking.corrupt(
        _rng(), targets, masking.MaskingShares(), mask_id=103, random_ids=(104, 1104)
    )
    error = (0.8 * 0.2 / len(targets)) ** 0.5
    assert np.mean(shown == 103) == pytest.approx(0.8, abs=3 * error)
    # One random draw in 1000 gives the original id again.
    assert np.mean(shown == 150) == pytest.approx(0.1001, abs=3 * error)
    random = shown[(shown != 103) & (shown != 150)]
    assert random.min() == 104 and random.max() == 1103
    assert shown.dtype == np.int32


def test_shares_out_of_range_are_errors():
    with pytest.raises(ValueError, match=r"mlm is 1.5; expected a number from 0 to 1"):
        masking.MaskingShares(mlm=1.5)
    with pytest.raises(ValueError, match="is more than 1; lower one"):
        masking.MaskingShares(replace_by_mask=0.8, replace_by_random=0.3)
