"""How far distributions are apart, against loops in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops import divergence
from etc_jax.ops.chunked_loss import FactoredLogits
from etc_jax.sharding import DEFAULT_RULES, MeshConfig, logical_rules, make_mesh

B, N, E, V = 2, 11, 6, 13


def by_loop(p, q):
    """KL(p || q) + KL(q || p) of two rows of logits."""
    p, q = ([np.exp(x) / sum(np.exp(row)) for x in row] for row in (p, q))
    forth = sum(a * np.log(a / b) for a, b in zip(p, q, strict=True))
    return forth + sum(b * np.log(b / a) for a, b in zip(p, q, strict=True))


def rows(seed=0, shape=(3, 5)):
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=shape), 2 * rng.normal(size=shape)


def test_of_a_softmax_it_is_that_of_a_loop(float64):
    p, q = rows()
    want = [by_loop(*pair) for pair in zip(p, q, strict=True)]
    np.testing.assert_allclose(divergence.of_softmax(p, q), want, rtol=1e-12)
    # Logits are known up to a number for all.
    np.testing.assert_allclose(divergence.of_softmax(p + 7, q), want, rtol=1e-12)


def test_of_a_yes_or_no_it_is_that_of_two_classes(float64):
    p, q = rows(shape=(9,))
    want = [by_loop((a, 0.0), (b, 0.0)) for a, b in zip(p, q, strict=True)]
    np.testing.assert_allclose(divergence.of_sigmoid(p, q), want, rtol=1e-12)


@pytest.mark.parametrize("of", [divergence.of_softmax, divergence.of_sigmoid])
def test_it_is_symmetric_and_0_between_equals(of):
    p, q = (jnp.asarray(x, jnp.bfloat16) for x in rows(1))
    assert of(p, q).dtype == jnp.float32
    np.testing.assert_array_equal(of(p, p), 0)
    np.testing.assert_array_equal(of(p, q), of(q, p))


def test_no_term_is_negative_however_near_the_distributions_are():
    p, _ = rows(2, (400, 7))
    near = p + 1e-6 * np.random.default_rng(3).normal(size=p.shape)
    assert (divergence.of_softmax(jnp.float32(p), jnp.float32(near)) >= 0).all()


@pytest.mark.parametrize("low", [-1e4, -1e30])
def test_a_class_that_both_rule_out_adds_nothing(low):
    p, q = map(jnp.float32, rows(4))
    want, grads = jax.value_and_grad(lambda p: divergence.of_softmax(p, q).sum())(p)
    p, q = (jnp.pad(x, ((0, 0), (0, 2)), constant_values=low) for x in (p, q))
    got, more = jax.value_and_grad(lambda p: divergence.of_softmax(p, q).sum())(p)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(more[:, :5], grads, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(more[:, 5:], 0)


@pytest.mark.parametrize("of", [divergence.of_softmax, divergence.of_sigmoid])
def test_gradients_are_finite_differences(of, float64):
    inputs = rows(5)
    grads = jax.grad(lambda *x: of(*x).sum(), argnums=(0, 1))(*inputs)
    for side in (0, 1):
        for place in np.ndindex(inputs[side].shape):
            found = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in inputs]
                moved[side][place] += step
                found.append(float(of(*moved).sum()))
            want = (found[0] - found[1]) / 2e-6
            np.testing.assert_allclose(grads[side][place], want, rtol=1e-6, atol=1e-8)


# --- of a vocabulary ------------------------------------------------------------------


def arrays(b=B, n=N, v=V, dtype=np.float64):
    rng = np.random.default_rng(6)
    shapes = (b, n, E), (b, n, E), (E, v), (v,), (b, n)
    return [jnp.asarray(rng.normal(size=s), dtype) for s in shapes]


def total(x, y, kernel, bias, weights, chunk_length):
    p, q = (FactoredLogits(rows, kernel, bias, chunk_length) for rows in (x, y))
    found = divergence.of_vocabulary(p, q)
    return jnp.sum(found * weights), found


GRADS = functools.partial(jax.value_and_grad, argnums=(0, 1, 2, 3), has_aux=True)


@pytest.mark.parametrize("chunk_length", [0, 1, 4, 10])
def test_of_a_vocabulary_it_is_that_of_all_logits_at_once(chunk_length, float64):
    def plain(x, y, kernel, bias, weights):
        p, q = (rows @ kernel + bias[None, None] for rows in (x, y))
        log_p, log_q = jax.nn.log_softmax(p), jax.nn.log_softmax(q)
        forth = jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)
        found = forth + jnp.sum(jnp.exp(log_q) * (log_q - log_p), axis=-1)
        return jnp.sum(found * weights), found

    got, want = GRADS(total)(*arrays(), chunk_length), GRADS(plain)(*arrays())
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_no_array_has_the_logits_of_all_tokens():
    n, v = 1024, 512
    shapes = [((2, n, 8),) * 2, ((8, v), (v,), (2, n))]
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for group in shapes for s in group]

    def temporaries(chunk_length):
        step = functools.partial(GRADS(total), chunk_length=chunk_length)
        compiled = jax.jit(step).lower(*shapes).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    everything = 2 * (2 * n * v * 4)  # of both passes
    assert temporaries(0) > everything
    assert temporaries(16) < everything / 8


@pytest.mark.parametrize("axes", [(2, 2, 2, 1), (2, 1, 1, 4)])
@pytest.mark.full(but=["axes1"])
def test_on_a_mesh_it_is_the_same(axes):
    inputs = arrays(8, 64, 48, np.float32)
    want = jax.jit(GRADS(total), static_argnums=5)(*inputs, 0)
    mesh = make_mesh(MeshConfig(*axes))
    rows = jax.NamedSharding(mesh, jax.P(("data", "fsdp"), "sequence"))
    table = jax.NamedSharding(mesh, jax.P(None, ("tensor", "fsdp")))
    whole = jax.NamedSharding(mesh, jax.P())
    with jax.set_mesh(mesh), logical_rules(DEFAULT_RULES):
        run = jax.jit(
            functools.partial(GRADS(total), chunk_length=8),
            in_shardings=(rows, rows, table, whole, rows),
        )
        got = run(*inputs)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-4)
