import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.objectives.losses.labels import (
    label_loss,
    label_set_loss,
    token_label_loss,
)

B = 5
WEIGHTS = np.array([1, 1, 2, 0, 1], np.float32)

loss = jax.jit(label_loss)
set_loss = jax.jit(label_set_loss)


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


def test_weights_of_classes_are_factors_of_the_losses_alone():
    (logits, targets), factors = examples(2, 4), np.float32([0.5, 3, 1, 0])
    known = np.where(WEIGHTS > 0, targets, 0)
    plain, alone = loss(logits, targets, WEIGHTS), []
    for i in range(B):
        one = np.float32(np.arange(B) == i) * WEIGHTS
        alone.append(float(loss(logits, targets, one)[0]))
    got = loss(logits, targets, WEIGHTS, factors)
    np.testing.assert_allclose(got[0], np.dot(alone, factors[known]), rtol=1e-5)
    assert got[1:] == plain[1:]


@pytest.mark.parametrize("factors", [1.0, np.float32([0.5, 3, 1])])
def test_a_set_of_labels_equals_a_plain_loop_over_yes_and_no(factors):
    rng = np.random.default_rng(5)
    logits = 3 * rng.normal(size=(B, 3)).astype(np.float32)
    targets = rng.integers(0, 2, (B, 3))
    losses, right, given, wanted = 0.0, 0.0, 0.0, 0.0
    by_label = np.broadcast_to(factors, 3)
    for row, target, weight in zip(logits, targets, WEIGHTS, strict=True):
        for x, t, factor in zip(row, target, by_label, strict=True):
            p = 1 / (1 + np.exp(-np.float64(x)))
            losses -= weight * factor * np.log(p if t else 1 - p) / 3
            right += weight * (t and x > 0)
            given, wanted = given + weight * (x > 0), wanted + weight * t
    total, (both, either) = set_loss(logits, targets, WEIGHTS, factors)
    np.testing.assert_allclose(total, losses, rtol=1e-5)
    assert (float(both), float(either)) == (2 * right, given + wanted)


def test_sets_of_no_weight_and_large_logits_have_finite_gradients():
    logits = jnp.array([[1e4, -1e4], [-1e4, 1e4]], jnp.float32)
    targets = np.array([[1, 0], [1, 0]])

    def total(x, weights):
        return set_loss(x, targets, weights)[0]

    assert float(total(logits, np.float32([0, 0]))) == 0.0
    np.testing.assert_array_equal(jax.grad(total)(logits, np.float32([0, 0])), 0.0)
    assert float(total(logits, np.float32([1, 1]))) == 1e4
    got = jax.grad(total)(logits, np.float32([1, 1]))
    np.testing.assert_allclose(got, [[0, 0], [-0.5, 0.5]], atol=1e-6)


def test_each_text_is_the_mean_over_its_tokens_with_a_label():
    rng = np.random.default_rng(4)
    b, n, c = 3, 6, 4
    logits = 2 * rng.normal(size=(b, n, c)).astype(np.float32)
    targets = rng.integers(-1, c, (b, n))
    targets[1] = -1  # a text without any
    weights, factors = np.array([1, 1, 2], np.float32), np.array([1.0, 0.5, 2.0, 0.0])
    total = hits = count = 0.0
    for i in range(b):
        losses = []
        for j in np.flatnonzero(targets[i] >= 0):
            p = np.exp(np.float64(logits[i, j]))
            losses.append(-factors[targets[i, j]] * np.log(p[targets[i, j]] / p.sum()))
            hits += weights[i] * (p.argmax() == targets[i, j])
            count += weights[i]
        total += weights[i] * (np.mean(losses) if losses else 0.0)
    token_loss = jax.jit(token_label_loss)
    got, (right, tokens) = token_loss(logits, targets, weights, factors)
    np.testing.assert_allclose(got, total, rtol=1e-5)
    assert (float(right), float(tokens)) == (hits, count)
    # Without a label a token has no gradient, whatever its logits.
    gradient = jax.jit(jax.grad(lambda x: token_label_loss(x, targets, weights)[0]))
    there = np.abs(gradient(logits)).sum(axis=-1) > 0
    np.testing.assert_array_equal(there, targets >= 0)
