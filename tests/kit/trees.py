"""Trees of arrays, compared leaf by leaf."""

import functools

import jax
import numpy as np


def assert_close(got, want, *, rtol, atol=0.0):
    close = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
    jax.tree.map(close, got, want)
