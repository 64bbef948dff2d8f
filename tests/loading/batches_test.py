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
    found = groups(lengths, lambda n: 100, batch_size)
    assert sorted(i for g in found for i in g.indices) == list(range(200))
    for group in found:
        assert max(lengths[i] for i in group.indices) <= group.length <= 100
        assert len(group.indices) <= group.rows <= batch_size
    assert [g.length for g in found] == sorted((g.length for g in found), reverse=True)
    # Whole batches, but for the last.
    assert sum(g.rows for g in found) < 200 + batch_size


def shapes_of(lengths, batch_size=8):
    return [(g.rows, g.length) for g in groups(lengths, lambda n: 4096, batch_size)]


def test_a_shape_of_its_own_saves_more_padding_than_a_program_is_worth():
    # 8 * (256 - 96) tokens: not worth it; 16 of them are.
    assert shapes_of([256] * 8 + [90] * 8) == [(8, 256)] * 2
    assert shapes_of([256] * 8 + [90] * 16) == [(8, 256)] + [(8, 96)] * 2
    # The shortest wait for more to come along: 24 * (64 - 16) and 48 * (128 - 64).
    found = shapes_of([128] * 8 + [64] * 24 + [16] * 24)
    assert found == [(8, 128)] + [(8, 64)] * 6


def test_few_long_inputs_do_not_take_many_short_ones_along():
    assert shapes_of([4000] + [100] * 7) == [(1, 4096), (8, 128)]
    assert shapes_of([100] + [30] * 7) == [(8, 128)]


def test_the_last_batch_is_filled_up_where_that_saves_a_program():
    assert shapes_of([128] * 9) == [(8, 128)] * 2
    # 7 * 512 tokens are more than a program is worth.
    assert shapes_of([512] * 9) == [(8, 512), (1, 512)]
    assert shapes_of([128]) == [(1, 128)]


def test_inputs_of_different_limits_are_apart():
    blocks = lambda n: -(-n // 4) * 4  # noqa: E731
    found = groups([30, 29, 28, 26, 25], blocks, 8)
    assert [(g.indices, g.length) for g in found] == [([0, 1], 32), ([2, 3, 4], 28)]


def test_no_input_is_no_group():
    assert groups([], lambda n: 8, 4) == []
