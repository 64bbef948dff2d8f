"""Which tokens are drawn, and how often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.sampling import choose

ODDS = np.array([0.4, 0.05, 0.3, 0.25])
COUNT = 4000


def shares(temperature=1.0, **options):
    """How often each token is drawn."""
    logits = jnp.log(jnp.asarray(ODDS, jnp.float32))[None].repeat(COUNT, axis=0)
    found = choose(logits, jax.random.key(0), temperature, **options)
    return np.bincount(found, minlength=4) / COUNT


@pytest.mark.parametrize(
    "options, want",
    [
        ({}, ODDS),
        ({"temperature": 0.5}, ODDS**2),
        ({"temperature": None}, [1, 0, 0, 0]),
        ({"top_k": 2}, [0.4, 0, 0.3, 0]),
        ({"top_k": 9}, ODDS),
        ({"top_p": 0.75}, [0.4, 0, 0.3, 0.25]),
        ({"top_p": 0.65}, [0.4, 0, 0.3, 0]),
        ({"top_p": 1e-9}, [1, 0, 0, 0]),
        # 0.4 is 0.57 of what two leave over.
        ({"top_k": 2, "top_p": 0.5}, [1, 0, 0, 0]),
    ],
)
def test_shares_are_those_of_the_softmax_that_is_left(options, want):
    want = np.asarray(want) / np.sum(want)
    got = shares(**options)
    assert not got[want == 0].any()
    error = 4 * np.sqrt(want * (1 - want) / COUNT)
    assert (np.abs(got - want) <= error).all()


def test_rows_are_drawn_apart_and_by_the_key():
    logits = jnp.zeros((50, 30))
    first, again, other = (
        choose(logits, jax.random.key(seed), 1.0) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and len(set(first.tolist())) > 10
