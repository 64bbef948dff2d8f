"""Baselines of a text, by hand."""

import numpy as np

from etc_jax.data.statistics import log_frequencies


def test_log_frequencies_of_a_hand_made_text():
    got = log_frequencies(np.array([[0, 2], [2, 2]]), 4)
    np.testing.assert_allclose(got, np.log(np.array([2, 1, 4, 1]) / 8), rtol=1e-6)
