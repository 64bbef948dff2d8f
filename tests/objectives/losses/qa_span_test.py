import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.objectives.losses import qa_span

B, N, G = 3, 7, 5


def examples(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "support_logits": rng.normal(size=(B, G)).astype(np.float32) * 3,
        "type_logits": rng.normal(size=(B, 3)).astype(np.float32) * 3,
        "span_logits": rng.normal(size=(B, N, 2)).astype(np.float32) * 3,
        "support": rng.integers(0, 2, (B, G)),
        "answer_type": rng.integers(0, 3, B),
        "begin": rng.integers(0, N, B),
        "end": rng.integers(0, N, B),
        "weights": np.array([1.0, 0.0, 2.0], np.float32),
    }


@jax.jit
def hotpotqa(support_logits, type_logits, span_logits, **labels):
    return qa_span.hotpotqa(support_logits, type_logits, span_logits, **labels)


def negative_log(probabilities: np.ndarray, target: int) -> float:
    return -float(np.log(probabilities[target] / probabilities.sum()))


def by_loop(x: dict) -> tuple[float, dict[str, float]]:
    """Example by example, in float64, from probabilities."""
    parts = dict.fromkeys(("support", "answer_type", "begin", "end"), 0.0)
    for b, weight in enumerate(x["weights"]):
        odds = np.exp(np.float64(x["support_logits"][b]))
        p = odds / (1 + odds)
        right = np.where(x["support"][b] == 1, p, 1 - p)
        parts["support"] -= weight * np.log(right).sum()
        kinds = np.exp(np.float64(x["type_logits"][b]))
        parts["answer_type"] += weight * negative_log(kinds, x["answer_type"][b])
        spans = np.exp(np.float64(x["span_logits"][b]))
        for side, name in enumerate(("begin", "end")):
            parts[name] += weight * negative_log(spans[:, side], x[name][b])
    return sum(parts.values()) / 4, parts


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_plain_loop(seed):
    x = examples(seed)
    loss, parts, weight = hotpotqa(**x)
    expected, expected_parts = by_loop(x)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert float(weight) == 3.0
    for name, value in expected_parts.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5)


def test_no_weight_means_no_loss_and_no_gradient():
    x = examples(0) | {"weights": np.zeros(B, np.float32)}
    loss, _, weight = hotpotqa(**x)
    assert float(loss) == 0.0 and float(weight) == 0.0
    names = ("support_logits", "type_logits", "span_logits")
    labels = {k: v for k, v in x.items() if k not in names}

    def total(logits):
        return hotpotqa(*logits, **labels)[0]

    for gradient in jax.grad(total)([x[n] for n in names]):
        np.testing.assert_array_equal(gradient, 0.0)


def test_large_logits_stay_finite():
    x = examples(1)
    for name in ("support_logits", "type_logits", "span_logits"):
        x[name] = x[name] * 1e4
    loss, _, _ = hotpotqa(**x)
    assert np.isfinite(float(loss))
    half = {k: jnp.asarray(v, jnp.bfloat16) for k, v in x.items() if "logits" in k}
    assert hotpotqa(**x | half)[0].dtype == jnp.float32


def test_natural_questions_is_the_mean_of_five():
    rng = np.random.default_rng(5)
    types, spans = rng.normal(size=(B, 5)), rng.normal(size=(B, N, 4))
    kinds, places = rng.integers(0, 5, B), rng.integers(0, N, (B, 4))
    weights = np.array([1.0, 1.0, 0.0])
    loss, parts, weight = jax.jit(
        functools.partial(qa_span.natural_questions),
    )(types, spans, answer_type=kinds, positions=places, weights=weights)
    expected = 0.0
    for b in range(2):
        expected += negative_log(np.exp(types[b]), kinds[b])
        for s in range(4):
            expected += negative_log(np.exp(spans[b, :, s]), places[b, s])
    np.testing.assert_allclose(loss, expected / 5, rtol=1e-5)
    assert float(weight) == 2.0
    assert set(parts) == {
        *("short_begin", "short_end", "long_begin", "long_end", "answer_type")
    }


def test_answers_are_between_the_separators_or_nowhere():
    cls, sep = 1, 2
    ids = np.array([[1, 5, 6, 2, 7, 8, 2, 0], [1, 2, 2, 0, 0, 0, 0, 0]])
    want = np.array([[0, 1, 1, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1]], bool)
    got = qa_span.outside_document(ids, cls=cls, sep=sep)
    np.testing.assert_array_equal(got, want)
