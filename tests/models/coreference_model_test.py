"""The span-pair head against plain float64 loops."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.models.coreference import MASKED, SpanPairHead, distance_bucket

T, D = 11, 5
HEAD = SpanPairHead(
    ffnn_dim=7,
    feature_dim=3,
    dropout_rate=0.5,
    max_tokens=3,
    top_ratio=0.7,
    max_spans=8,
    max_antecedents=3,
    chunk_length=6,
)


def spans():
    """All spans of up to four tokens, one too long, and some padding."""
    found = [(a, b) for a in range(T) for b in range(a, min(a + 4, T))]
    first, last = np.array(found + [(0, 0)] * 3).T
    mask = np.arange(len(first)) < len(found)
    return jnp.asarray(first), jnp.asarray(last), jnp.asarray(mask)


def rows(seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(T, D)), jnp.float32)


@functools.cache
def random_params(head=HEAD, scale=0.5):
    shapes = jax.eval_shape(head.init, jax.random.key(0), rows(), *spans(), 10)
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda x: jnp.asarray(scale * rng.normal(size=x.shape), x.dtype),
        shapes["params"],
    )


def apply(head=HEAD, params=None, x=None, of_spans=None, num_words=10, rngs=None):
    params = random_params(head) if params is None else params
    x = rows() if x is None else x
    return _apply(head, params, x, *(of_spans or spans()), num_words, rngs)


@functools.partial(jax.jit, static_argnums=0)
def _apply(head, params, x, first, last, mask, num_words, rngs):
    with jax.default_matmul_precision("highest"):
        return head.apply(
            {"params": params}, x, first, last, mask, num_words, rngs=rngs
        )


# --- oracle ---------------------------------------------------------------------------


def ffnn(params, x) -> float:
    wi, wo = params["ffnn"]["wi"], params["ffnn"]["wo"]
    hidden = np.maximum(x @ wi["kernel"] + wi["bias"], 0)
    return float((hidden @ wo["kernel"] + wo["bias"])[0])


def span_row(params, x, a, b):
    look = params["head_attention"]
    inside = x[a : b + 1]
    odds = np.exp(inside @ look["kernel"] + look["bias"])
    mean = (inside * odds / odds.sum()).sum(axis=0)
    width = params["width_embedder"]["embedding"][b - a]
    return np.concatenate([x[a], x[b], mean, width])


BUCKETS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 7: 5, 8: 6, 15: 6, 16: 7, 31: 7}
BUCKETS |= {32: 8, 63: 8, 64: 9, 1000: 9}


def bucket(distance):
    return BUCKETS[max(x for x in BUCKETS if x <= distance)]


def oracle(head, params, x, of_spans, num_words):
    """(kept candidates, their scores, [{antecedent: score}] of each)."""
    params = jax.tree.map(np.float64, params)
    x = np.float64(x)
    listed = [
        (i, int(a), int(b))
        for i, (a, b, real) in enumerate(zip(*of_spans, strict=True))
        if real and b - a < head.max_tokens
    ]
    g = {i: span_row(params, x, a, b) for i, a, b in listed}
    score = {i: ffnn(params["mention"], g[i]) for i in g}
    count = min(int(np.ceil(head.top_ratio * num_words)), head.max_spans)
    top = sorted(sorted(g, key=lambda i: -score[i])[:count])
    pairs = []
    for n, i in enumerate(top):
        mapped = g[i] @ params["coarse"]["kernel"]
        coarse = {m: score[i] + score[j] + mapped @ g[j] for m, j in enumerate(top[:n])}
        best = sorted(coarse, key=lambda m: -coarse[m])[: head.max_antecedents]
        full = {}
        for m in sorted(best):
            other = g[top[m]]
            near = params["distance_embedder"]["embedding"][bucket(n - m)]
            pair = np.concatenate([g[i], other, g[i] * other, near])
            full[m] = coarse[m] + ffnn(params["antecedent"], pair)
        pairs.append(full)
    return top, [score[i] for i in top], pairs


def check(got, want):
    top, scores, pairs = want
    number = int(got.top_mask.sum())
    assert got.top_spans[:number].tolist() == top
    assert not got.top_mask[number:].any()
    np.testing.assert_allclose(got.mention_scores[:number], scores, atol=1e-4)
    for i, full in enumerate(pairs):
        count = int(got.antecedent_mask[i].sum())
        assert got.antecedents[i, :count].tolist() == list(full)
        want = [0.0, *full.values()]
        np.testing.assert_allclose(got.scores[i, : count + 1], want, atol=1e-4)
        assert not got.antecedent_mask[i, count:].any()
        assert (got.scores[i, count + 1 :] == MASKED).all()


# --- tests ----------------------------------------------------------------------------


@pytest.mark.parametrize("num_words", [10, 11, 40], ids=["7", "8", "at most 8"])
def test_equals_plain_loops(num_words):
    params = random_params()
    got = apply(params=params, num_words=num_words)
    check(got, oracle(HEAD, params, rows(), spans(), num_words))
    assert got.top_spans.shape == (8,) and got.scores.shape == (8, 4)
    assert got.top_mask.sum() == min(8, -(-num_words * 7 // 10))


def test_parameters_are_few_and_of_the_papers_shapes():
    e = 3 * D + 3
    shapes = jax.tree.map(lambda x: x.shape, random_params())
    assert shapes == {
        "head_attention": {"kernel": (D, 1), "bias": (1,)},
        "width_embedder": {"embedding": (3, 3)},
        "mention": {"ffnn": ffnn_shapes(e)},
        "coarse": {"kernel": (e, e)},
        "distance_embedder": {"embedding": (10, 3)},
        "antecedent": {"ffnn": ffnn_shapes(3 * e + 3)},
    }


def ffnn_shapes(inputs):
    hidden = HEAD.ffnn_dim
    return {
        "wi": {"kernel": (inputs, hidden), "bias": (hidden,)},
        "wo": {"kernel": (hidden, 1), "bias": (1,)},
    }


@pytest.mark.parametrize("chunk_length", [1, 1000])
def test_chunks_change_nothing(chunk_length):
    params = random_params()
    want = apply(params=params)
    got = apply(dataclasses.replace(HEAD, chunk_length=chunk_length), params)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_fewer_candidates_than_are_to_be_kept():
    first, last = jnp.array([0, 2, 4]), jnp.array([0, 3, 9])
    few = (first, last, jnp.array([True, True, True]))
    params = random_params()
    got = apply(params=params, of_spans=few, num_words=10)
    assert got.top_mask.tolist() == [True, True, False]  # the last is too long
    check(got, oracle(HEAD, params, rows(), few, 10))


def test_a_document_of_padding_keeps_nothing_and_is_finite():
    first, last, mask = spans()
    got = apply(of_spans=(first, last, jnp.zeros_like(mask)))
    assert not got.top_mask.any() and not got.antecedent_mask.any()
    assert all(np.isfinite(x).all() for x in got)


def test_padding_and_long_spans_get_no_gradient():
    """Rows that only they look at, however high they would score."""
    first, last, mask = spans()
    apart = (last >= T - 2) & (last - first < HEAD.max_tokens)
    mask = mask & ~apart
    params = random_params()

    def total(x):
        got = apply(params=params, x=x, of_spans=(first, last, mask))
        kept = jnp.where(got.antecedent_mask, got.scores[:, 1:], 0)
        return jnp.sum(kept) + jnp.sum(jnp.where(got.top_mask, got.mention_scores, 0))

    gradient = jax.grad(total)(rows())
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[T - 2 :], 0)
    assert np.abs(gradient[: T - 2]).max() > 0


@pytest.mark.full
def test_gradients_are_those_of_differences():
    params = random_params()

    def total(scale):
        got = apply(params=jax.tree.map(lambda x: x * scale, params))
        kept = jnp.where(got.antecedent_mask, got.scores[:, 1:], 0)
        return jnp.sum(jnp.tanh(0.1 * kept))

    def loops(scale):
        scaled = jax.tree.map(lambda x: np.float64(x) * scale, params)
        _, _, pairs = oracle(HEAD, scaled, rows(), spans(), 10)
        return sum(np.tanh(0.1 * s) for full in pairs for s in full.values())

    step = 1e-5
    want = (loops(1 + step) - loops(1 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(total)(1.0), want, rtol=1e-3)


def test_dropout_is_drawn_in_training_alone():
    params, training = random_params(), dataclasses.replace(HEAD, deterministic=False)
    one = apply(training, params, rngs={"dropout": jax.random.key(1)})
    other = apply(training, params, rngs={"dropout": jax.random.key(2)})
    assert not np.array_equal(one.mention_scores, other.mention_scores)
    np.testing.assert_array_equal(apply(params=params)[2], apply(params=params)[2])


def test_lower_precision_is_near():
    params = random_params(scale=0.2)
    got = apply(dataclasses.replace(HEAD, dtype=jnp.bfloat16), params)
    want = apply(params=params)
    assert got.scores.dtype == got.mention_scores.dtype == jnp.float32
    both = sorted(set(got.top_spans.tolist()) & set(want.top_spans.tolist()))
    assert len(both) >= 5
    for span in both:
        a = got.mention_scores[got.top_spans.tolist().index(span)]
        b = want.mention_scores[want.top_spans.tolist().index(span)]
        np.testing.assert_allclose(a, b, atol=2e-2)


def test_buckets_of_distances():
    for distance, want in BUCKETS.items():
        assert int(distance_bucket(jnp.array(distance))) == want


@pytest.mark.parametrize(
    "x, number",
    [(jnp.zeros((1, T, D)), 3), (jnp.zeros((T, D)), 0)],
    ids=["batch", "no candidate"],
)
def test_wrong_shapes_are_named(x, number):
    none = jnp.zeros((number,), jnp.int32)
    with pytest.raises(ValueError, match=r"expected \[t, d\] of one document"):
        HEAD.apply({"params": {}}, x, none, none, none > 0, 3)
