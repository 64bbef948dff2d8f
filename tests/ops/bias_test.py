"""Buckets of T5's relative positions, of all sizes that they may have."""

import numpy as np
import pytest

from etc_jax.ops.attention.bias import bucket

OFFSETS = np.arange(-300, 301)


def test_buckets_of_a_few_distances_by_hand():
    # Two for short distances; the third begins at 2, the last one at sqrt(2 * 8) = 4.
    got = bucket(np.arange(-9, 3), 4, 8, causal=True)
    assert got.tolist() == [3, 3, 3, 3, 3, 3, 2, 2, 1, 0, 0, 0]
    # Half of 7 to each side: 0 to 2, and 3 to 5; nothing has the number 6.
    got = bucket(np.arange(-9, 10), 7, 8, causal=False)
    assert got.tolist() == [2] * 7 + [1, 1, 0, 4, 4] + [5] * 7
    # Distance 2 is among the short ones, 0 to 3: from 4 on buckets fall.
    got = bucket(np.arange(-9, 1), 8, 2, causal=True)
    assert got.tolist() == [0, 0, 1, 2, 3, 4, 3, 2, 1, 0]


@pytest.mark.torch
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_buckets", [4, 5, 6, 7, 9, 31, 32, 512])
def test_transformers_has_the_same_buckets(num_buckets, causal):
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    compared = 0
    for distance in (1, 2, 3, 7, 8, 9, 15, 16, 17, 128, 1000):
        options = {"num_buckets": num_buckets, "max_distance": distance}
        want = t5.T5Attention._relative_position_bucket(
            torch.tensor(OFFSETS), bidirectional=not causal, **options
        ).numpy()
        got = np.asarray(bucket(OFFSETS, **options, causal=causal))
        assert got.min() >= 0 and got.max() < num_buckets
        # From a distance on, transformers may ask for rows that no table has.
        wrong = (want < 0) | (want >= num_buckets)
        valid = np.abs(OFFSETS) < np.abs(OFFSETS[wrong]).min(initial=301)
        np.testing.assert_array_equal(got[valid], want[valid], err_msg=str(options))
        compared += valid.sum()
    assert compared > 3000
