import numpy as np
import pytest

from etc_jax.data.pretraining.global_tokens import global_index

MASK = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])


def test_places_are_in_order_and_filled_up():
    got = global_index(MASK, 3)
    np.testing.assert_array_equal(got, [[0, 3, -1], [-1, -1, -1], [1, -1, -1]])
    assert got.dtype == np.int32


def test_as_many_as_the_fullest_row_needs():
    assert global_index(MASK).shape == (3, 2)
    assert global_index(MASK[1:2]).shape == (1, 0)


def test_too_many_are_told_with_their_row():
    with pytest.raises(ValueError, match="row 0 has 2 global tokens, .* room for 1"):
        global_index(MASK, 1)


def test_a_mask_of_another_shape_is_told():
    with pytest.raises(ValueError, match="expected \\[batch, n\\]"):
        global_index(MASK[0])
