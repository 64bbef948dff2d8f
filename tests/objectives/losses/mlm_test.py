import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.objectives.losses.mlm import masked_lm

jitted = jax.jit(masked_lm)


def by_loop(logits, targets, weights):
    """The same, place by place, in float64."""
    losses, hits, total = 0.0, 0.0, 0.0
    for place in np.ndindex(*targets.shape):
        row = np.asarray(logits[place], np.float64)
        likelihood = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        losses += weights[place] * -np.log(likelihood[targets[place]])
        hits += weights[place] * (list(row).index(row.max()) == targets[place])
        total += weights[place]
    return losses, hits, total


@settings(max_examples=30, deadline=None)
@given(
    # Few shapes, as each is compiled.
    shape=st.sampled_from([(1, 1, 1), (2, 3, 7), (3, 5, 2)]),
    seed=st.integers(0, 2**31),
)
def test_equals_a_plain_loop(shape, seed):
    rng = np.random.default_rng(seed)
    logits = 5 * rng.normal(size=shape).astype(np.float32)
    targets = rng.integers(0, shape[-1], shape[:-1])
    weights = rng.integers(0, 2, shape[:-1]).astype(np.float32)
    got = jitted(logits, targets, weights)
    np.testing.assert_allclose(
        got, by_loop(logits, targets, weights), rtol=1e-5, atol=1e-5
    )
    assert all(x.dtype == jnp.float32 and x.shape == () for x in got)


def test_logits_without_information_cost_the_log_of_the_vocabulary():
    losses, _, places = masked_lm(jnp.zeros((2, 3, 11)), jnp.ones((2, 3), int), ones())
    assert losses / places == pytest.approx(np.log(11), rel=1e-6)


def ones():
    return jnp.ones((2, 3))


def test_certainty_costs_nothing_and_hits():
    targets = jnp.array([[1, 0, 2], [2, 2, 1]])
    losses, hits, _ = masked_lm(100 * jax.nn.one_hot(targets, 4), targets, ones())
    assert float(losses) == 0.0 and float(hits) == 6.0


def test_huge_logits_stay_finite():
    logits = jnp.full((2, 3, 4), 1e30).at[..., 0].set(-1e30)
    for part in masked_lm(logits, jnp.ones((2, 3), int), ones()):
        assert np.isfinite(part)


def test_unused_places_do_not_matter_and_get_no_gradient():
    rng = np.random.default_rng(0)
    logits = jnp.array(rng.normal(size=(2, 3, 5)), jnp.float32)
    weights = jnp.array([[1, 0, 1], [0, 0, 1]], jnp.float32)
    targets = jnp.array(rng.integers(0, 5, (2, 3)))
    elsewhere = jnp.where(weights > 0, targets, 4)
    other = jnp.where(weights[..., None] > 0, logits, 7.0)
    expected = masked_lm(logits, targets, weights)
    np.testing.assert_array_equal(expected, masked_lm(other, elsewhere, weights))
    gradient = jax.grad(lambda x: masked_lm(x, targets, weights)[0])(logits)
    assert not np.any(gradient[weights == 0])
    assert np.all(np.abs(gradient[weights > 0]).sum(-1) > 0)


def test_low_precision_logits_are_summed_in_float32():
    rng = np.random.default_rng(1)
    logits = jnp.array(rng.normal(size=(1, 4000, 8)), jnp.bfloat16)
    targets = rng.integers(0, 8, (1, 4000))
    weights = np.ones((1, 4000), np.float32)
    got = masked_lm(logits, targets, weights)
    exact = np.asarray(logits.astype(jnp.float32))
    # Numbers of bfloat16 tie often; which of them is called the largest is not told.
    losses, _, places = by_loop(exact, targets, weights)
    np.testing.assert_allclose([got[0], got[2]], [losses, places], rtol=1e-5)
