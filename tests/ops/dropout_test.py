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
from etc_jax.ops.attention.parts.dropout import Draws, dropout_factors
from etc_jax.structure import Rules, Structure


@pytest.mark.parametrize("shape", [(2, 3, 1, 5), (1, 2, 64, 31), (3, 7, 1)])
def test_factors_are_zero_or_what_keeps_the_mean(shape):
    factors = dropout_factors(jax.random.key(0), 0.25, shape, jnp.float32)
    assert factors.shape == shape
    assert set(np.unique(factors)) <= {0, np.float32(1 / 0.75)}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_pairs_are_dropped_at_the_rate_and_apart_from_each_other(rate):
    kept = dropout_factors(jax.random.key(1), rate, (8, 101, 64), jnp.float32) > 0
    share, error = float(kept.mean()), (rate * (1 - rate) / kept.size) ** 0.5
    assert abs(share - (1 - rate)) < 4 * error
    # Two keys whose bits are halves of one word are no more alike than others.
    first, second = np.asarray(kept[:, :50], float), np.asarray(kept[:, 51:], float)
    covariance = ((first - share) * (second - share)).mean()
    assert abs(covariance) < 4 * rate * (1 - rate) / first.size**0.5


def test_no_array_of_bits_has_a_last_axis_of_two():
    # A TPU would pad it to 128 places.
    draw = functools.partial(dropout_factors, rate=0.1, shape=(4, 6, 8), dtype="f4")
    made = jax.make_jaxpr(draw)(jax.random.key(0))
    shapes = [x.aval.shape for eqn in made.eqns for x in eqn.outvars]
    assert (4, 6, 8) in shapes
    assert all(shape[-1:] != (2,) for shape in shapes)


def test_factors_of_a_block_hang_on_its_place_alone():
    draws = Draws(jax.random.key(3), jnp.asarray(0))

    def factors(start, count, first=0):
        here = draws._replace(first_block=jnp.asarray(first))
        return here.factors(0.5, start, (2, count, 7, 4), 1, jnp.float32)

    whole = factors(0, 6)
    parts = [factors(0, 2), factors(2, 1), factors(1, 3, first=2)]
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
    factors = dropout_factors(jax.random.key(0), rate, (64, 64, 64), jnp.float32)
    assert set(np.unique(factors)) == {0, 2**16}


@pytest.mark.parametrize("field", ["dropout_rate", "attention_dropout_rate"])
def test_a_config_with_such_a_rate_is_refused(field):
    problems = dict(EtcConfig(**{field: 1 - 2**-17}).problems())
    assert "below 1 - 2**-17" in problems[field]
    problems = dict(EtcConfig(**{field: 1.0}).problems())
    assert "in [0, 1)" in problems[field]
