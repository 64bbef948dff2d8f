import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from etc_jax.objectives.losses.cpc import contrastive, similarities

BOTH = ("cosine", "dot")


@functools.partial(jax.jit, static_argnames="similarity")
def loss(predictions, targets, weights, similarity, temperature=0.5):
    logits = similarities(
        predictions, targets, similarity=similarity, temperature=temperature
    )
    return contrastive(logits, weights)


def by_loop(predictions, targets, weights, similarity, temperature):
    """Row by row over the candidates that are used, in float64."""
    used = [i for i, w in enumerate(weights) if w]
    losses, hits = 0.0, 0
    for i in used:
        scores = []
        for j in used:
            p, t = np.float64(predictions[i]), np.float64(targets[j])
            score = sum(a * b for a, b in zip(p, t, strict=True))
            if similarity == "cosine":
                score /= np.sqrt((p**2).sum()) * np.sqrt((t**2).sum()) * temperature
            scores.append(score)
        scores = np.array(scores)
        own = used.index(i)
        losses += np.log(np.exp(scores - scores[own]).sum())
        hits += scores.argmax() == own
    return losses, hits, len(used)


@settings(max_examples=40, deadline=None)
@given(
    # Few shapes, as each is compiled.
    shape=st.sampled_from([(1, 2), (3, 1), (6, 5)]),
    similarity=st.sampled_from(BOTH),
    seed=st.integers(0, 2**31),
)
def test_equals_a_plain_loop(shape, similarity, seed):
    rng, (candidates, width) = np.random.default_rng(seed), shape
    predictions, targets = rng.normal(size=(2, *shape)).astype(np.float32)
    weights = rng.integers(0, 2, candidates).astype(np.float32)
    got = loss(predictions, targets, weights, similarity)
    expected = by_loop(predictions, targets, weights, similarity, 0.5)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)
    assert float(got[2]) == expected[2]
    if width > 1:  # of one number only the sign counts in a cosine, and many tie
        assert float(got[1]) == expected[1]


def test_similarities_by_hand():
    predictions = jnp.array([[3.0, 4.0], [0.0, 2.0]])
    targets = jnp.array([[0.0, 5.0], [6.0, 0.0]])
    cosine = similarities(predictions, targets, similarity="cosine", temperature=0.1)
    np.testing.assert_allclose(cosine, [[8.0, 6.0], [10.0, 0.0]], atol=1e-5)
    dot = similarities(predictions, targets, similarity="dot", temperature=0.1)
    np.testing.assert_array_equal(dot, [[20.0, 18.0], [10.0, 0.0]])
    assert cosine.dtype == dot.dtype == jnp.float32


def test_contrastive_by_hand():
    logits = jnp.array([[1.0, 0.0, 50.0], [2.0, 0.0, 50.0], [0.0, 0.0, 0.0]])
    losses, hits, count = contrastive(logits, jnp.array([1.0, 1.0, 0.0]))
    # Of the two candidates in use, row 0 finds its own and row 1 the other one's.
    expected = np.log(1 + np.exp(-1)) + np.log(1 + np.exp(2))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert (float(hits), float(count)) == (1.0, 2.0)


def test_sentences_of_the_same_document_are_left_out_on_request():
    logits = jnp.array([[1.0, 9.0, 0.0], [9.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    documents = jnp.array([7, 7, 8])
    losses, hits, count = contrastive(logits, jnp.ones(3), documents)
    # Rows 0 and 1 are of one document: each has its own target and that of row 2.
    expected = sum(np.log(1 + np.exp(x)) for x in (0.0 - 1.0, 2.0 - 0.0))
    expected += np.log(1 + 2 * np.exp(-3.0))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert (float(hits), float(count)) == (2.0, 3.0)
    everything = contrastive(logits, jnp.ones(3))
    assert float(everything[1]) == 1.0 and float(everything[0]) > float(losses)


def test_unused_candidates_of_no_document_are_no_negatives_of_each_other():
    documents = jnp.array([3, -1, -1])
    weights = jnp.array([1.0, 0.0, 0.0])
    losses, hits, count = contrastive(jnp.zeros((3, 3)), weights, documents)
    assert (float(losses), float(hits), float(count)) == (0.0, 1.0, 1.0)


def test_an_unknown_similarity_is_named():
    with pytest.raises(ValueError, match="'euclid' is not one of cosine, dot"):
        similarities(jnp.ones((2, 3)), jnp.ones((2, 3)), similarity="euclid")


@pytest.mark.parametrize("similarity", BOTH)
def test_a_cosine_does_not_depend_on_lengths_and_a_dot_product_does(similarity):
    rng = np.random.default_rng(0)
    predictions, targets = rng.normal(size=(2, 4, 3)).astype(np.float32)
    scale = np.array([[1.0], [2.0], [30.0], [0.1]], np.float32)
    given = loss(predictions, targets, jnp.ones(4), similarity)[0]
    scaled = loss(scale * predictions, targets, jnp.ones(4), similarity)[0]
    assert np.allclose(given, scaled, rtol=1e-5) is (similarity == "cosine")


@pytest.mark.parametrize("similarity", BOTH)
@pytest.mark.parametrize("filler", [0.0, 1e4, -7.0])
def test_unused_candidates_never_matter(similarity, filler):
    rng = np.random.default_rng(1)
    x = jnp.array(rng.normal(size=(2, 5, 3)), jnp.float32)
    weights = jnp.array([1.0, 0.0, 1.0, 1.0, 0.0])
    y = jnp.where(weights[None, :, None] > 0, x, filler)

    def value(both):
        losses, hits, count = loss(*both, weights, similarity)
        return losses, (hits, count)

    (expected, parts), gradient = jax.value_and_grad(value, has_aux=True)(x)
    (got, other_parts), other_gradient = jax.value_and_grad(value, has_aux=True)(y)
    assert float(got) == float(expected) and parts == other_parts
    used = weights > 0
    np.testing.assert_array_equal(other_gradient[:, used], gradient[:, used])
    assert not np.any(gradient[:, ~used]) and not np.any(other_gradient[:, ~used])
    assert np.all(np.abs(gradient[:, used]).sum(-1) > 0)


@pytest.mark.parametrize("similarity", BOTH)
def test_no_candidate_at_all_is_0_with_finite_gradients(similarity):
    for x in (jnp.zeros((2, 4, 3)), jnp.ones((2, 4, 3))):
        value, gradient = jax.value_and_grad(
            lambda both: loss(*both, jnp.zeros(4), similarity)[0]
        )(x)
        assert float(value) == 0.0
        assert not np.any(gradient)


def test_all_zero_vectors_have_finite_gradients():
    gradient = jax.grad(lambda both: loss(*both, jnp.ones(4), "cosine")[0])(
        jnp.zeros((2, 4, 3))
    )
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("similarity", BOTH)
def test_the_order_of_candidates_does_not_matter(similarity):
    rng = np.random.default_rng(2)
    predictions, targets = rng.normal(size=(2, 6, 3)).astype(np.float32)
    weights = np.array([1, 1, 0, 1, 0, 1], np.float32)
    order = rng.permutation(6)
    np.testing.assert_allclose(
        loss(predictions[order], targets[order], weights[order], similarity),
        loss(predictions, targets, weights, similarity),
        rtol=1e-5,
    )
