import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.objectives.losses import keyphrase
from etc_jax.ops.ngrams import NO_NGRAM, ngram_mask

K, N = 3, 8
NUM_WORDS = np.array([8, 5, 6, 0])
B = len(NUM_WORDS)
WEIGHTS = np.array([1, 2, 1, 0], np.float32)
# (length, first words) of the keyphrases of each page. The last page is padding.
PHRASES = [
    [(1, [2, 5, 7]), (2, [0]), (3, [1, 3])],
    [(2, [1, 3])],
    [(1, [4]), (6, [0])],
    [],
]


def labels():
    starts, lengths = np.full((2, B, 3), -1)
    occurrences = np.zeros((B, N), np.uint8)
    for b, phrases in enumerate(PHRASES):
        for p, (length, places) in enumerate(phrases):
            starts[b, p], lengths[b, p] = places[0], length
            occurrences[b, places] |= np.uint8(1 << p)
    return starts, lengths, occurrences


STARTS, LENGTHS, OCCURRENCES = labels()
PLACES = np.asarray(ngram_mask(NUM_WORDS, N, K))


def logits(seed: int) -> jax.Array:
    values = np.random.default_rng(seed).normal(size=(B, K, N)) * 3
    return jnp.asarray(np.where(PLACES, values, NO_NGRAM), jnp.float32)


@functools.partial(jax.jit, static_argnames=("smoothing", "everywhere"))
def first(x, weights=WEIGHTS, smoothing=1e-4, everywhere=False):
    return keyphrase.first_occurrence(
        x,
        STARTS,
        LENGTHS,
        weights,
        allowed=None if everywhere else PLACES,
        smoothing=smoothing,
    )


@functools.partial(jax.jit, static_argnames=("smoothing",))
def best(x, weights=WEIGHTS, smoothing=1e-4):
    return keyphrase.best_occurrence(
        x, OCCURRENCES, LENGTHS, weights, allowed=PLACES, smoothing=smoothing
    )


def loop(x, choose, smoothing):
    """(loss, gradient) of plain loops; `choose(logits, places)` -> one that counts.

    Occurrences that are not chosen leave the softmax if `choose` takes the best.
    """
    x, total = np.float64(x), 0.0
    gradient = np.zeros_like(x)
    for b, weight in enumerate(WEIGHTS):
        if not weight:
            continue
        right, others = [], []
        for length, places in PHRASES[b]:
            if length <= K:
                runs = [(length - 1, start) for start in places]
                chosen = choose(x[b], runs)
                right.append(chosen)
                if choose is highest:
                    others += [run for run in runs if run != chosen]
        runs = [r for r in np.ndindex(K, N) if PLACES[b][r] and r not in others]
        mass = sum(np.exp(x[b][r]) for r in runs)
        for r in runs:
            p = np.exp(x[b][r]) / mass
            target = (r in right) / len(right) + smoothing / len(runs)
            target /= 1 + smoothing
            total -= weight * target * np.log(p)
            gradient[b][r] = weight * (p - target)
    return total, gradient


def earliest(x, runs):
    return runs[0]


def highest(x, runs):
    return max(runs, key=lambda r: x[r])


@pytest.mark.parametrize("smoothing", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("fn, choose", [(first, earliest), (best, highest)])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_equal_plain_loops(fn, choose, smoothing, seed):
    x = logits(seed)
    want, want_gradient = loop(x, choose, smoothing)
    got, gradient = jax.value_and_grad(lambda x: fn(x, smoothing=smoothing)[0])(x)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(gradient, want_gradient, atol=1e-5)
    assert float(fn(x)[2]) == WEIGHTS.sum()


def test_the_best_occurrence_alone_gets_a_gradient():
    x = logits(0).at[0, 0, 5].set(9.0)
    gradient = jax.grad(lambda x: best(x)[0])(x)[0, 0]
    assert gradient[2] == gradient[7] == 0.0 and gradient[5] != 0.0
    lifted = x.at[0, 0, 7].set(9.5)
    gradient = jax.grad(lambda x: best(x)[0])(lifted)[0, 0]
    assert gradient[2] == gradient[5] == 0.0 and gradient[7] != 0.0


def test_of_equal_occurrences_the_first_stands_for_the_keyphrase():
    x = logits(0).at[0, 0, jnp.array([2, 5, 7])].set(4.0)
    gradient = jax.grad(lambda x: best(x)[0])(x)[0, 0]
    assert gradient[2] != 0.0 and gradient[5] == gradient[7] == 0.0


def test_with_one_occurrence_each_both_losses_are_the_same():
    x = logits(4)
    only_first = np.zeros_like(OCCURRENCES)
    for b, phrases in enumerate(PHRASES):
        for p, (_, places) in enumerate(phrases):
            only_first[b, places[0]] |= np.uint8(1 << p)
    got = keyphrase.best_occurrence(x, only_first, LENGTHS, WEIGHTS, allowed=PLACES)
    np.testing.assert_allclose(got, first(x), rtol=1e-6)


def test_a_guess_is_right_at_a_label():
    x = logits(0)
    guess = x.at[0, 0, 5].set(50.0).at[1, 1, 1].set(50.0).at[2, 2, 0].set(50.0)
    # Place 5 is the second occurrence; the third page's guess is no keyphrase.
    assert float(first(guess)[1]) == 2.0 and float(best(guess)[1]) == 3.0


def test_spreading_over_padding_is_the_official_way_and_costs_by_padding():
    x, smoothing = logits(0), 1e-4
    official = float(first(x, everywhere=True)[0])
    # Mass on runs beyond the text costs their log-probability of about -10000.
    extra = [(~PLACES[b]).mean() * 1e4 * smoothing for b in range(3)]
    want = float(first(x)[0]) + np.dot(WEIGHTS[:3], extra)
    assert official == pytest.approx(want, rel=2e-3)


@pytest.mark.parametrize("fn", [first, best])
def test_more_padding_changes_nothing(fn):
    x = logits(1)
    pad = [(0, 0), (0, 0), (0, 5)]
    wide = jnp.pad(x, pad, constant_values=NO_NGRAM)
    call = {"allowed": np.pad(PLACES, pad)}
    if fn is first:
        got = keyphrase.first_occurrence(wide, STARTS, LENGTHS, WEIGHTS, **call)
    else:
        occurrences = np.pad(OCCURRENCES, [(0, 0), (0, 5)])
        got = keyphrase.best_occurrence(wide, occurrences, LENGTHS, WEIGHTS, **call)
    np.testing.assert_allclose(got, fn(x), rtol=1e-6)


@pytest.mark.parametrize("fn", [first, best])
def test_no_weight_means_no_loss_and_no_gradient(fn):
    none = np.zeros(B, np.float32)
    total, gradient = jax.value_and_grad(lambda x: fn(x, weights=none)[0])(logits(2))
    assert float(total) == 0.0
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("fn", [first, best])
def test_losses_of_low_precision_are_float32(fn):
    got = fn(logits(0).astype(jnp.bfloat16))
    assert {x.dtype for x in got} == {jnp.dtype(jnp.float32)}
