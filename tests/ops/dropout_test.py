"""Dropout factors of attention: how they are drawn, and rates that are refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.base.types import Pieces, Rows
from etc_jax.models.etc.config import EtcConfig
from etc_jax.ops.attention import block_sparse, full, global_local, lsh, sliding_window
from etc_jax.ops.attention.parts.checks import DROPOUT_RATE_LIMIT
from etc_jax.ops.attention.parts.dropout import Draws
from etc_jax.ops.dropout import dropped, factors
from etc_jax.structure import Rules, Structure


@pytest.mark.parametrize("shape", [(2, 3, 1, 5), (1, 2, 64, 31), (3, 7, 1)])
def test_factors_are_zero_or_what_keeps_the_mean(shape):
    drawn = factors(jax.random.key(0), 0.25, shape, jnp.float32)
    assert drawn.shape == shape
    assert set(np.unique(drawn)) <= {0, np.float32(1 / 0.75)}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_elements_are_dropped_at_the_rate_and_apart_from_each_other(rate):
    kept = factors(jax.random.key(1), rate, (8, 101, 64), jnp.float32) > 0
    share, variance = 1 - rate, rate * (1 - rate)
    apart = np.asarray(kept, float) - share
    assert abs(apart.mean()) < 4 * (variance / kept.size) ** 0.5
    # Rows, columns and seeds that follow each other, and that are a power of 2 apart.
    for axis, step in ((0, 1), (1, 1), (1, 64), (2, 1), (2, 32)):
        first, second = (
            np.take(apart, range(start, apart.shape[axis] - step + start), axis)
            for start in (0, step)
        )
        covariance = (first * second).mean()
        assert abs(covariance) < 4 * variance / first.size**0.5, (axis, step)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_rows_are_divided_by_what_is_kept_and_gradients_by_the_same(dtype):
    x = jax.random.normal(jax.random.key(0), (3, 40, 16), dtype)
    rng = jax.random.key(1)
    out, backward = jax.vjp(lambda x: dropped(x, rng, 0.1), x)
    drawn = factors(rng, 0.1, x.shape, jnp.float32)
    np.testing.assert_array_equal(out, (x * drawn).astype(dtype))
    np.testing.assert_array_equal(backward(x)[0], out)
    # Of the rows nothing is kept for it.
    assert all(leaf.size <= len(x) for leaf in jax.tree.leaves(backward))


def test_factors_of_a_block_hang_on_its_place_alone():
    draws = Draws(jax.random.key(3), jnp.asarray(0))

    def drawn(start, count, first=0):
        here = draws._replace(first_block=jnp.asarray(first))
        return here.factors(0.5, start, (2, count, 7, 4), 1, jnp.float32)

    whole = drawn(0, 6)
    parts = [drawn(0, 2), drawn(2, 1), drawn(1, 3, first=2)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    assert (whole[:, 0] != whole[:, 1]).any()


X = jnp.ones((1, 8, 1, 2))


def of_global_local(**options):
    none = X[:, :0]
    structure = Structure(
        long_example_ids=jnp.ones((1, 8), jnp.int32),
        global_example_ids=jnp.zeros((1, 0), jnp.int32),
        links=jnp.zeros((1, 8, 0), jnp.int16),
    )
    pieces = Pieces(X, none, none, X)
    return global_local.attend(
        Rows(X, none), pieces, pieces, None, structure, Rules(radius=2), **options
    )


OPS = {
    "global-local": of_global_local,
    "windows": functools.partial(sliding_window.attend, X, X, X, radius=2),
    "full": functools.partial(full.attend, X, X, X),
    "blocks": functools.partial(block_sparse.attend, X, X, X, block_size=2),
    "lsh": functools.partial(
        lsh.attend,
        X,
        X,
        jnp.zeros((1, 1, 1, 8), int),
        num_buckets=2,
        look=lsh.ChunkNeighbors(4),
    ),
    "local chunks": functools.partial(lsh.local, X, X, X, look=lsh.ChunkNeighbors(4)),
}


@pytest.mark.parametrize("op", OPS)
def test_a_rate_that_rounds_to_one_is_refused(op):
    with pytest.raises(ValueError, match=r"dropout_rate must be below 1 - 2\*\*-17"):
        OPS[op](dropout_rate=1 - 2**-18, dropout_rng=jax.random.key(0))


def test_the_rate_below_the_limit_keeps_some():
    rate = np.nextafter(DROPOUT_RATE_LIMIT, 0)
    drawn = factors(jax.random.key(0), rate, (64, 64, 64), jnp.float32)
    assert set(np.unique(drawn)) == {0, 2**16}


@pytest.mark.parametrize("field", ["dropout_rate", "attention_dropout_rate"])
def test_a_config_with_such_a_rate_is_refused(field):
    problems = dict(EtcConfig(**{field: 1 - 2**-17}).problems())
    assert "below 1 - 2**-17" in problems[field]
    problems = dict(EtcConfig(**{field: 1.0}).problems())
    assert "in [0, 1)" in problems[field]
