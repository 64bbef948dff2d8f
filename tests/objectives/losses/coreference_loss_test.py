"""The loss of antecedents against a loop over probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.models.coreference import MASKED, SpanPairs
from etc_jax.objectives.losses.coreference import in_common, marginal_loss

M, K, C = 12, 7, 3


def case(seed):
    """Random pairs, the last two rows padding, and clusters of the candidates."""
    rng = np.random.default_rng(seed)
    top_mask = np.arange(K) < K - 2
    top_spans = np.sort(rng.choice(M, K, replace=False))
    antecedents = np.zeros((K, C), int)
    mask = np.zeros((K, C), bool)
    for i in range(K - 2):
        found = np.sort(rng.choice(i, min(i, rng.integers(1, C + 1)), replace=False))
        antecedents[i, : len(found)] = found
        mask[i, : len(found)] = True
    scores = np.concatenate([np.zeros((K, 1)), 3 * rng.normal(size=(K, C))], axis=1)
    scores[:, 1:] = np.where(mask, scores[:, 1:], MASKED)
    arrays = (top_spans, top_mask, np.zeros(K), antecedents, mask, scores)
    pairs = SpanPairs(*(jnp.asarray(x) for x in arrays))
    pairs = pairs._replace(scores=jnp.float32(scores))
    return pairs, jnp.asarray(rng.integers(0, 3, M))


def by_loop(pairs, clusters) -> float:
    total = 0.0
    own = [int(clusters[s]) for s in pairs.top_spans]
    for i in np.flatnonzero(pairs.top_mask):
        odds = {None: 1.0}
        for j, real, score in zip(
            pairs.antecedents[i],
            pairs.antecedent_mask[i],
            pairs.scores[i, 1:],
            strict=True,
        ):
            if real:
                odds[int(j)] = float(np.exp(np.float64(score)))
        right = [j for j in odds if j is not None and own[j] == own[i] and own[i]]
        share = sum(odds[j] for j in right or [None]) / sum(odds.values())
        total -= np.log(share)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_loop(seed):
    pairs, clusters = case(seed)
    loss, number = marginal_loss(pairs, clusters)
    np.testing.assert_allclose(loss, by_loop(pairs, clusters), rtol=1e-5)
    assert float(number) == K - 2


def test_any_right_antecedent_will_do():
    """Two right ones of equal score and a wrong one: -log(2e / (1 + 3e)).

    The spans before it have no antecedent to choose from, and no loss.
    """
    pairs, _ = case(0)
    scores = jnp.full((K, 1 + C), MASKED).at[:, 0].set(0).at[3, 1:].set(1.0)
    pairs = pairs._replace(
        top_spans=jnp.arange(K),
        top_mask=jnp.arange(K) < 4,
        antecedents=pairs.antecedents.at[3].set(jnp.arange(3)),
        antecedent_mask=jnp.zeros((K, C), bool).at[3].set(True),
        scores=scores,
    )
    loss, number = marginal_loss(pairs, jnp.array([2, 1, 2, 2] + [0] * 8))
    np.testing.assert_allclose(loss, -np.log(2 * np.e / (1 + 3 * np.e)), rtol=1e-6)
    assert float(number) == 4


def test_gradients_are_finite_and_zero_where_there_is_nothing():
    pairs, clusters = case(1)

    def loss(scores):
        return marginal_loss(pairs._replace(scores=scores), clusters)[0]

    gradient = np.asarray(jax.grad(loss)(pairs.scores))
    assert np.isfinite(gradient).all()
    real = np.asarray(pairs.antecedent_mask & pairs.top_mask[:, None])
    np.testing.assert_array_equal(gradient[:, 1:][~real], 0)
    np.testing.assert_array_equal(gradient[K - 2 :], 0)
    assert np.abs(gradient).max() > 0.01
    # Probabilities of a row sum to 1, whatever is right.
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-6)


def test_nothing_kept_is_no_loss():
    pairs, clusters = case(2)
    pairs = pairs._replace(top_mask=jnp.zeros(K, bool))
    loss, number = marginal_loss(pairs, clusters)
    assert float(loss) == 0.0 and float(number) == 0.0


def odds_of(pairs):
    """{(candidate, antecedent candidate or None): score} of the kept spans."""
    spans, found = np.asarray(pairs.top_spans).tolist(), {}
    for i in np.flatnonzero(pairs.top_mask):
        found[spans[i], None] = float(pairs.scores[i, 0])
        for j in np.flatnonzero(pairs.antecedent_mask[i]):
            other = spans[pairs.antecedents[i, j]]
            found[spans[i], other] = float(pairs.scores[i, 1 + j])
    return found


def test_two_readings_have_in_common_what_both_have_kept():
    shared = 0
    for seed in range(0, 10, 2):
        (a, _), (b, _) = case(seed), case(seed + 1)
        # What follows the last kept span is the last candidate.
        a, b = (
            x._replace(
                top_spans=jnp.where(x.top_mask, x.top_spans, M - 1),
                mention_scores=jnp.float32(x.top_spans) + number,
            )
            for number, x in enumerate((a, b))
        )
        both = odds_of(a).keys() & odds_of(b).keys()
        shared += sum(antecedent is not None for _, antecedent in both)
        for mine, got in zip((a, b), jax.jit(in_common)(a, b), strict=True):
            of_mine = odds_of(mine)
            assert odds_of(got) == {pair: of_mine[pair] for pair in both}
            masked = ~np.asarray(got.antecedent_mask)
            assert (np.asarray(got.scores)[:, 1:][masked] == np.float32(MASKED)).all()
            kept = np.asarray(got.top_mask)
            named = np.asarray(got.top_spans)[kept]
            np.testing.assert_array_equal(got.mention_scores[kept], named + (mine is b))
    assert shared > 5


def test_a_reading_has_all_of_itself_in_common_with_itself():
    pairs, _ = case(3)
    for got in in_common(pairs, pairs):
        assert odds_of(got) == odds_of(pairs)
