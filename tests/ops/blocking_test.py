import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as hs

from etc_jax.ops import blocking

few = settings(max_examples=6, deadline=None, derandomize=True)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_pad_axis_adds_the_value_on_one_axis_only():
    x = np.ones((2, 3, 4))
    padded = np.asarray(blocking.pad_axis(x, 1, 2, 1, value=7))
    assert padded.shape == (2, 6, 4)
    assert (padded[:, :2] == 7).all() and (padded[:, 5:] == 7).all()
    assert (padded[:, 2:5] == 1).all()
    assert blocking.pad_axis(x, 1, 0, 0) is x


def test_slice_axis_takes_places_of_one_axis():
    x = normal(2, 7, 3)
    np.testing.assert_array_equal(blocking.slice_axis(x, 2, 4, 1), x[:, 2:6])
    np.testing.assert_array_equal(blocking.slice_axis(x, 2, 4, -2), x[:, 2:6])


@pytest.mark.parametrize("axis", [1, -2])
def test_blocks_split_in_order_and_unblock_joins(axis):
    x = normal(2, 12, 3)
    cut = blocking.blocks(x, 4, axis)
    assert cut.shape == (2, 4, 3, 3)
    for i in range(4):
        np.testing.assert_array_equal(cut[:, i], x[:, 3 * i : 3 * i + 3])
    np.testing.assert_array_equal(blocking.unblock(cut, 1), x)


def test_blocks_of_the_last_axis():
    x = normal(2, 6)
    np.testing.assert_array_equal(blocking.blocks(x, 3, -1), x.reshape(2, 3, 2))
    np.testing.assert_array_equal(blocking.unblock(x.reshape(2, 3, 2), -2), x)


@few
@given(blocks=hs.integers(1, 4), size=hs.integers(1, 4), radius=hs.integers(0, 5))
@example(blocks=1, size=1, radius=0)
@example(blocks=3, size=1, radius=5)
def test_windows_overlap_and_overlap_add_is_their_transpose(blocks, size, radius):
    x = normal(2, blocks * size + 2 * radius, 3)
    width = size + 2 * radius
    got = blocking.windows(x, blocks, size, 1)
    assert got.shape == (2, blocks, width, 3)
    for i in range(blocks):
        np.testing.assert_array_equal(got[:, i], x[:, i * size : i * size + width])

    y = normal(*got.shape, seed=1)
    want = np.zeros_like(x)
    for i in range(blocks):
        want[:, i * size : i * size + width] += y[:, i]
    back = blocking.overlap_add(y, size, 1)
    np.testing.assert_allclose(back, want, atol=1e-5)
    # The transpose by its definition.
    assert np.sum(got * y) == pytest.approx(np.sum(x * np.asarray(back)), abs=1e-3)
