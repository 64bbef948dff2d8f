import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.objectives.losses.alias_spans import alias_spans, any_position_losses

B, N, M = 5, 9, 4
NUMBERS = (1, 3, 0, 2, 4)  # of occurrences
LENGTHS = (9, 7, 9, 5, 8)  # tokens that are no padding

loss = jax.jit(alias_spans)


def examples(seed: int, scale: float = 3.0):
    rng = np.random.default_rng(seed)
    starts, ends = np.full((2, B, M), -1)
    for row, (number, n) in enumerate(zip(NUMBERS, LENGTHS, strict=True)):
        places = np.sort(rng.choice(n, number, replace=False))
        starts[row, :number] = places
        ends[row, :number] = np.minimum(places + rng.integers(0, 2, number), n - 1)
    start_logits, end_logits = scale * rng.normal(size=(2, B, N)).astype(np.float32)
    return {
        "start_logits": start_logits,
        "end_logits": end_logits,
        "starts": starts,
        "ends": ends,
        "is_token": np.arange(N) < np.array(LENGTHS)[:, None],
        "weights": np.array([1, 1, 1, 0, 2], np.float32),
    }


def called(x):
    x = dict(x)
    return loss(x.pop("start_logits"), x.pop("end_logits"), **x)


def by_loop(x):
    """Example by example, in float64, from probabilities."""
    sums, hits, total = {"start": 0.0, "end": 0.0}, 0.0, 0.0
    for row in range(B):
        pairs = list(zip(x["starts"][row], x["ends"][row], strict=True))
        pairs = [pair for pair in pairs if pair[0] >= 0]
        weight = x["weights"][row] if pairs else 0.0
        guess = []
        for side, name in enumerate(("start", "end")):
            p = np.exp(np.float64(x[f"{name}_logits"][row, : LENGTHS[row]]))
            p /= p.sum()
            guess.append(p.argmax())
            if weight:
                right = {pair[side] for pair in pairs}
                sums[name] -= weight * np.log(sum(p[i] for i in right))
        hits += weight * (tuple(guess) in pairs)
        total += weight
    return sum(sums.values()) / 2, sums, hits, total


@pytest.mark.parametrize("seed", range(5))
def test_equals_a_plain_loop_over_probabilities(seed):
    x = examples(seed)
    got, want = called(x), by_loop(x)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    for name in ("start", "end"):
        np.testing.assert_allclose(got[1][name], want[1][name], rtol=1e-5)
    assert float(got[2]) == want[2] and float(got[3]) == want[3] == 4.0


def test_the_best_guess_must_be_one_occurrence():
    start, end = np.zeros((2, 1, N), np.float32)
    x = {
        "starts": np.array([[1, 4, -1]]),
        "ends": np.array([[2, 6, -1]]),
        "is_token": np.ones((1, N), bool),
        "weights": np.ones(1, np.float32),
    }
    hits = {}
    for first, last in ((1, 2), (4, 6), (1, 6), (4, 2), (0, 2)):
        start[:], end[:] = 0, 0
        start[0, first], end[0, last] = 9, 9
        hits[first, last] = float(loss(start, end, **x)[2])
    assert hits == {(1, 2): 1, (4, 6): 1, (1, 6): 0, (4, 2): 0, (0, 2): 0}


def test_a_place_that_is_there_twice_counts_once():
    logits = np.random.default_rng(0).normal(size=(1, N)).astype(np.float32)
    once = any_position_losses(logits, np.array([[3, 5, -1]]))
    twice = any_position_losses(logits, np.array([[3, 5, 3]]))
    np.testing.assert_array_equal(once, twice)


def test_every_place_together_costs_nothing():
    logits = np.random.default_rng(1).normal(size=(1, N)).astype(np.float32)
    losses = any_position_losses(logits, np.arange(N)[None])
    np.testing.assert_allclose(losses, 0.0, atol=1e-6)


def test_padding_changes_nothing():
    x = examples(0)
    odd = {k: np.where(x["is_token"], v, 77.0) for k, v in x.items() if "logits" in k}
    for got, want in zip(
        jax.tree.leaves(called({**x, **odd})), jax.tree.leaves(called(x)), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("scale", [3.0, 1e4])
def test_losses_and_gradients_are_finite_and_those_of_float64(scale):
    x = examples(3, scale)

    def total(start, end):
        rest = {k: v for k, v in x.items() if "logits" not in k}
        return alias_spans(start, end, **rest)[0]

    given = x["start_logits"], x["end_logits"]
    value, gradients = jax.value_and_grad(total, (0, 1))(*given)
    assert np.isfinite(value)
    for logits, gradient, name in zip(
        given, gradients, ("starts", "ends"), strict=True
    ):
        # P(token) - P(token | a right place), half of it, by weight.
        want = np.zeros((B, N))
        for row in range(B):
            right = x[name][row][x[name][row] >= 0]
            if not len(right):
                continue
            real = np.where(x["is_token"][row], np.float64(logits[row]), -np.inf)
            odds = np.exp(real - real.max())
            chosen = np.zeros(N)
            chosen[right] = np.exp(real[right] - real[right].max())
            part = odds / odds.sum() - chosen / chosen.sum()
            want[row] = x["weights"][row] * part / 2
        np.testing.assert_allclose(gradient, want, atol=1e-5)


def test_no_weight_means_no_loss_and_a_finite_gradient():
    x = examples(1) | {"weights": np.zeros(B, np.float32)}
    x["is_token"] = np.zeros((B, N), bool)

    def total(start):
        rest = {k: v for k, v in x.items() if k != "start_logits"}
        return alias_spans(start, **rest)[0]

    value, gradient = jax.value_and_grad(total)(x["start_logits"])
    assert float(value) == 0.0
    np.testing.assert_array_equal(gradient, 0.0)


def test_half_precision_is_summed_in_float32():
    x = examples(2)
    half = {k: jnp.bfloat16(v) for k, v in x.items() if "logits" in k}
    wide = {k: np.float32(v) for k, v in half.items()}
    got, want = called({**x, **half}), called({**x, **wide})
    assert got[0].dtype == jnp.float32
    np.testing.assert_array_equal(got[0], want[0])
