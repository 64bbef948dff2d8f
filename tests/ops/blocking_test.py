import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as hs

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
    got = jax.jit(blocking.windows, static_argnums=(1, 2, 3))(x, blocks, size, 1)
    assert got.shape == (2, blocks, width, 3)
    for i in range(blocks):
        np.testing.assert_array_equal(got[:, i], x[:, i * size : i * size + width])

    y = normal(*got.shape, seed=1)
    want = np.zeros_like(x)
    for i in range(blocks):
        want[:, i * size : i * size + width] += y[:, i]
    back = jax.jit(blocking.overlap_add, static_argnums=(1, 2))(y, size, 1)
    np.testing.assert_allclose(back, want, atol=1e-5)
    # The transpose by its definition.
    assert np.sum(got * y) == pytest.approx(np.sum(x * np.asarray(back)), abs=1e-3)


def masks_and_rows(x):
    """A function with arrays of several types and shapes as its result."""
    return {"mask": x[:, None] > x[None], "rows": (jnp.cumsum(x), x.astype(jnp.int32))}


def assert_same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("witness", [-(2**31), 0, 2**31 - 2])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_materialised_equals_the_plain_function(wrap, witness):
    # Small whole numbers: their sums are exact however they are compiled.
    x = np.array([3, -1, 4, 1, -5], np.float32)

    def run(witness, x):
        return blocking.materialised(masks_and_rows, witness, x)

    assert_same(wrap(run)(jnp.int32(witness), x), masks_and_rows(jnp.asarray(x)))


def test_materialised_takes_a_witness_that_is_traced_in_a_scan():
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5

    @jax.jit
    def run(x):
        def body(place, row):
            return place + 1, blocking.materialised(masks_and_rows, place, row)

        return jax.lax.scan(body, jnp.int32(0), x)[1]

    got = run(x)
    for i, row in enumerate(x):
        one = jax.tree.map(lambda y, i=i: y[i], got)
        assert_same(one, masks_and_rows(jnp.asarray(row)))


def test_materialised_keeps_the_function_inside_a_conditional():
    def run(witness, x):
        return blocking.materialised(masks_and_rows, witness, x)

    compiled = jax.jit(run).lower(jnp.int32(0), np.ones(4, np.float32)).compile()
    assert ("conditional(" in compiled.as_text()) == (jax.default_backend() == "cpu")
