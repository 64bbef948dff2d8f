"""Tables of rows and biases: values are those of flax, gradients sums in 32 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from etc_jax.layers.common import Dense, Embed

IDS = jnp.asarray([[3, 0, 3, 2], [-1, 3, 1, 0]], jnp.int32)


def gradient(module, params, ids):
    return jax.grad(lambda p: module.apply(p, ids).astype(jnp.float32).sum())(params)


def table_of(tree) -> np.ndarray:
    return np.asarray(tree["params"]["embedding"])


@pytest.mark.parametrize("rows", [1, 4])
def test_values_and_gradients_are_those_of_flax(rows):
    ids = jnp.minimum(IDS, rows - 1)
    params = nn.Embed(rows, 5).init(jax.random.key(0), ids)
    for dtype in (jnp.float32, jnp.bfloat16):
        own, theirs = Embed(rows, 5, dtype=dtype), nn.Embed(rows, 5, dtype=dtype)
        got, want = own.apply(params, ids), theirs.apply(params, ids)
        assert got.dtype == want.dtype == dtype
        np.testing.assert_array_equal(got, want)
        # Sums of few ones are exact in both.
        got, want = (table_of(gradient(x, params, ids)) for x in (own, theirs))
        np.testing.assert_array_equal(got, want)


def test_an_id_that_is_no_row_is_not_a_number_as_in_flax():
    own = Embed(4, 5)
    params = own.init(jax.random.key(0), IDS)
    assert np.isnan(own.apply(params, jnp.asarray([4]))).all()
    assert not table_of(gradient(own, params, jnp.asarray([4]))).any()


def test_a_row_that_all_tokens_read_gets_all_their_gradients():
    ids = jnp.zeros((1, 1000), jnp.int32)
    own = Embed(4, 5, dtype=jnp.bfloat16)
    params = own.init(jax.random.key(0), ids)
    got = table_of(gradient(own, params, ids))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [[1000] * 5, *[[0] * 5] * 3])
    # What this is for: sums in bfloat16 are not the sum.
    theirs = table_of(gradient(nn.Embed(4, 5, dtype=jnp.bfloat16), params, ids))
    assert not np.array_equal(theirs, got)


@pytest.mark.parametrize("param_dtype", [jnp.float32, jnp.bfloat16])
def test_a_bias_gets_the_gradients_of_all_rows(param_dtype):
    own = Dense((2, 3), 0.02, jnp.bfloat16, param_dtype=param_dtype)
    x = jnp.ones((3, 1367, 4), jnp.bfloat16)
    params = own.init(jax.random.key(0), x)
    got = gradient(own, params, x)["params"]["bias"]
    assert got.dtype == param_dtype
    # The nearest number of 8 bits is 4096.
    want = jnp.full((2, 3), 4101, param_dtype)
    np.testing.assert_array_equal(got, want)
