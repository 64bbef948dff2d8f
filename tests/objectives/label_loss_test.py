import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.objectives.losses.labels import label_loss

B = 5
WEIGHTS = np.array([1, 1, 2, 0, 1], np.float32)

loss = jax.jit(label_loss)


def examples(seed: int, c: int):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(B, c)).astype(np.float32)
    targets = rng.integers(0, c, B)
    # Padding has no label.
    return logits, np.where(WEIGHTS > 0, targets, -1)


@pytest.mark.parametrize("c", [2, 7])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_plain_loop_over_probabilities(seed, c):
    logits, targets = examples(seed, c)
    losses, hits = 0.0, 0.0
    for row, target, weight in zip(logits, targets, WEIGHTS, strict=True):
        p = np.exp(np.float64(row))
        if weight:
            losses -= weight * np.log(p[target] / p.sum())
            hits += weight * (p.argmax() == target)
    got = loss(logits, targets, WEIGHTS)
    np.testing.assert_allclose(got[0], losses, rtol=1e-5)
    assert float(got[1]) == hits and float(got[2]) == 5.0
    assert {x.dtype for x in got} == {np.dtype(np.float32)}


def test_large_logits_and_lower_precision_are_no_trouble():
    logits = jnp.array([[1e4, -1e4], [1e4, -1e4]], jnp.bfloat16)
    total, hits, _ = loss(logits, jnp.array([0, 1]), jnp.ones(2))
    assert total.dtype == jnp.float32 and float(hits) == 1.0
    np.testing.assert_allclose(float(total), 2e4, rtol=1e-2)


def test_no_weight_means_no_loss_and_a_finite_gradient():
    logits, targets = examples(0, 2)

    def total(x):
        return loss(x, np.full_like(targets, -1), np.zeros(B, np.float32))[0]

    assert float(total(logits)) == 0.0
    np.testing.assert_array_equal(jax.grad(total)(logits), 0.0)


def test_the_gradient_is_probability_less_target():
    logits, targets = examples(1, 3)
    got = jax.grad(lambda x: loss(x, targets, WEIGHTS)[0])(logits)
    p = np.exp(np.float64(logits))
    p /= p.sum(axis=-1, keepdims=True)
    right = np.arange(3) == targets[:, None]
    np.testing.assert_allclose(got, WEIGHTS[:, None] * (p - right), atol=1e-5)
