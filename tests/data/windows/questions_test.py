import numpy as np
import pytest

from etc_jax.data.windows.questions import before_separator


def test_tokens_before_the_first_separator():
    tokens = np.array([[0, 5, 2, 2, 6, 2], [2, 5, 5, 2, 6, 2]])
    want = [[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(before_separator(tokens, 2), want)
    np.testing.assert_array_equal(before_separator(tokens, 2, separators=3), want)
    np.testing.assert_array_equal(before_separator(tokens[0], 2), want[0])


@pytest.mark.parametrize("number, told", [(None, "expected 1 or more"), (3, "3; join")])
def test_a_row_without_its_separators_is_named(number, told):
    tokens = np.array([[0, 2, 2, 2], [0, 5, 6, 7]])
    with pytest.raises(ValueError, match=f"row 1 has the separator 2 0 times.*{told}"):
        before_separator(tokens, 2, separators=number)
