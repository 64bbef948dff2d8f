"""Which inputs are computed together."""

import numpy as np
import pytest

from etc_jax.loading.batches import groups, padded_length


def test_padded_lengths_are_powers_of_two_and_between():
    found = sorted({padded_length(n) for n in range(1, 513)})
    assert found == [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert all(n <= padded_length(n) for n in range(1, 513))
    assert all(padded_length(n) < 2 * n for n in range(9, 513))


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_every_input_is_in_one_group_that_fits(batch_size):
    lengths = np.random.default_rng(0).integers(2, 101, 200).tolist()
    found = list(groups(lengths, lambda n: 100, batch_size))
    assert sorted(i for g in found for i in g.places) == list(range(200))
    for group in found:
        mine = [lengths[i] for i in group.places]
        assert max(mine) <= group.length <= 100
        assert group.length < 4 * min(mine) or group.length == 16
        assert len(mine) <= group.rows <= min(batch_size, 2 * len(mine))
    assert [g.length for g in found] == sorted((g.length for g in found), reverse=True)
    # Whole batches, but for the last of each range of lengths.
    assert sum(g.rows for g in found) <= 200 + 6 * batch_size


def test_inputs_of_different_limits_are_apart():
    blocks = lambda n: -(-n // 4) * 4  # noqa: E731
    found = list(groups([30, 29, 28, 26, 25], blocks, 8))
    assert [(g.places, g.length) for g in found] == [([0, 1], 32), ([2, 3, 4], 28)]


def test_no_input_is_no_group():
    assert list(groups([], lambda n: 8, 4)) == []
