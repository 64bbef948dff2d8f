import functools

import jax
import numpy as np
import pytest

from etc_jax.objectives.losses.candidates import candidate_logits, choice

B, G = 4, 6
NUMBERS = (3, 1, 5, 0)  # of candidates; the last example is padding


@functools.partial(jax.jit, static_argnames="label_smoothing")
def loss(logits, is_candidate, targets, weights, label_smoothing=0.0):
    return choice(
        logits, is_candidate, targets, weights, label_smoothing=label_smoothing
    )


def examples(seed: int):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(B, G)).astype(np.float32) * 3
    is_candidate = np.arange(G) < np.array(NUMBERS)[:, None]
    targets = np.array([rng.integers(0, max(n, 1)) for n in NUMBERS])
    return logits, is_candidate, targets, np.array([1, 1, 2, 0], np.float32)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_plain_loop_over_candidates(seed, smoothing):
    logits, is_candidate, targets, weights = examples(seed)
    got = loss(logits, is_candidate, targets, weights, label_smoothing=smoothing)
    losses, hits = 0.0, 0.0
    for row, n, target, weight in zip(logits, NUMBERS, targets, weights, strict=True):
        if not weight:
            continue
        p = np.exp(np.float64(row[:n]))
        p /= p.sum()
        right = np.full(n, smoothing / n)
        right[target] += 1 - smoothing
        losses -= weight * float((right * np.log(p)).sum())
        hits += weight * (p.argmax() == target)
    np.testing.assert_allclose(got[0], losses, rtol=1e-5, atol=1e-6)
    assert float(got[1]) == hits and float(got[2]) == 4.0


def test_tokens_that_are_no_candidate_change_nothing():
    logits, is_candidate, targets, weights = examples(0)
    other = np.where(is_candidate, logits, 77.0).astype(np.float32)
    np.testing.assert_array_equal(
        loss(logits, is_candidate, targets, weights),
        loss(other, is_candidate, targets, weights),
    )
    kept = np.asarray(candidate_logits(other, is_candidate))
    np.testing.assert_array_equal(kept[is_candidate], logits[is_candidate])
    assert (kept[~is_candidate] == -10000.0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_weight_means_no_loss_and_a_finite_gradient(smoothing):
    logits, is_candidate, targets, _ = examples(1)

    def total(x):
        weights = np.zeros(B, np.float32)
        return loss(x, is_candidate, targets, weights, label_smoothing=smoothing)[0]

    assert float(total(logits)) == 0.0
    np.testing.assert_array_equal(jax.grad(total)(logits), 0.0)
