"""Reversible stacks: gradients of plain autodiff, inputs found again, flat memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops import reversible

WIDTH = 8


def tanh_half(params, x, rng, shared, kept):
    """A map with dropout, and a choice by rounding that must be found again."""
    if kept is None:
        kept = jnp.argsort(x["a"], axis=-1)
    keep = jax.random.bernoulli(rng, 0.8, x["a"].shape)
    turned = jnp.take_along_axis(x["a"], kept, axis=-1)
    out = jnp.tanh(turned @ params["w"]) * keep * shared
    return {"a": out}, kept


def linear_half(params, x, rng, shared, kept):
    del rng, shared
    return {"a": jnp.sin(x["a"] @ params["w"]) + params["b"].reshape(1, 1, -1)}, kept


def of_layers(repeats, seed=0, dtype=np.float64):
    """(layers, params, rngs, streams): two layers a repeat."""
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return (0.3 * rng.normal(size=(repeats, *shape))).astype(dtype)

    tanh = [{"w": weights(WIDTH, WIDTH)} for _ in range(2)]
    linear = [{"w": weights(WIDTH, WIDTH), "b": weights(WIDTH)} for _ in range(2)]
    layers = ((tanh_half, linear_half), (linear_half, tanh_half))
    params = ((tanh[0], linear[0]), (linear[1], tanh[1]))
    keys = jax.random.split(jax.random.key(3), (2, 2, repeats))
    rngs = tuple((keys[i, 0], keys[i, 1]) for i in range(2))
    streams = [{"a": rng.normal(size=(2, 5, WIDTH)).astype(dtype)} for _ in range(2)]
    return layers, params, rngs, streams


def unrolled(layers, params, rngs, shared, x1, x2):
    """The same, a layer after the other, by autodiff."""
    repeats = jax.tree.leaves(params)[0].shape[0]
    for i in range(repeats):
        at = jax.tree.map(lambda x, i=i: x[i], (params, rngs))
        for halves, mine, keys in zip(layers, *at, strict=True):
            x1, x2, _ = reversible.layer(halves, mine, keys, shared, x1, x2)
    return x1, x2


def loss_of(stack, layers, rngs, shared):
    def loss(params, streams):
        y1, y2 = stack(layers, params, rngs, shared, *streams)
        return jnp.sum(jnp.sin(y1["a"]) + y2["a"] ** 2)

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


def test_gradients_are_those_of_plain_autodiff_with_dropout():
    with jax.enable_x64(True):
        layers, params, rngs, streams = of_layers(3)
        shared = jnp.asarray(1.25)
        got = loss_of(reversible.stack, layers, rngs, shared)(params, streams)
        want = loss_of(unrolled, layers, rngs, shared)(params, streams)
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def sharing_half(params, x, rng, shared, kept):
    """Reads floats, in two precisions, integers and a key that all layers share."""
    keep = jax.random.bernoulli(shared["rng"], 0.8, x["a"].shape)
    mixed = jnp.take(x["a"] @ shared["mix"], shared["order"], axis=-1)
    gain = shared["gain"].astype(mixed.dtype).reshape(1, 1, -1)
    return tanh_half(params, {"a": mixed * gain}, rng, keep, kept)


def test_what_all_layers_share_gets_the_gradient_of_plain_autodiff():
    with jax.enable_x64(True):
        _, params, rngs, streams = of_layers(3)
        layers = ((sharing_half, sharing_half), (linear_of_shared, sharing_half))
        rng = np.random.default_rng(5)
        floats = {
            "mix": np.eye(WIDTH) + 0.1 * rng.normal(size=(WIDTH, WIDTH)),
            "gain": jnp.asarray(rng.uniform(0.5, 1.5, WIDTH), jnp.bfloat16),
        }
        others = {"order": rng.permutation(WIDTH), "rng": jax.random.key(9)}

        def gradients(stack):
            @jax.jit
            def loss(floats, params, streams):
                shared = {**others, **floats}
                y1, y2 = stack(layers, params, rngs, shared, *streams)
                return jnp.sum(jnp.sin(y1["a"]) + y2["a"] ** 2)

            return jax.grad(loss, argnums=(0, 1, 2))(floats, params, streams)

        got = gradients(reversible.stack)
        # Autodiff would sum what is of lower precision in that.
        floats["gain"] = floats["gain"].astype(np.float64)
        want = gradients(unrolled)
    assert np.abs(np.asarray(want[0]["mix"])).min() > 1e-3
    gain = [np.asarray(x[0].pop("gain"), np.float64) for x in (got, want)]
    assert np.abs(gain[0] - gain[1]).max() < 2**-8 * np.abs(gain[1]).max()
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def linear_of_shared(params, x, rng, shared, kept):
    y, kept = linear_half(params, x, rng, None, kept)
    return {"a": y["a"] * jnp.sum(shared["mix"] ** 2)}, kept


def test_integers_that_are_shared_have_no_gradient():
    layers, params, rngs, streams = of_layers(1, dtype=np.float32)
    shared = {"rng": jax.random.key(9), "order": jnp.arange(WIDTH)}
    shared |= {"mix": jnp.eye(WIDTH), "gain": jnp.ones(WIDTH)}
    layers = ((sharing_half, linear_half), (linear_half, sharing_half))

    def run(shared):
        return reversible.stack(layers, params, rngs, shared, *streams)

    out, back = jax.vjp(run, shared)
    (found,) = back(out)
    assert found["order"].dtype == found["rng"].dtype == jax.dtypes.float0
    assert found["mix"].shape == (WIDTH, WIDTH) and np.abs(found["mix"]).max() > 0


def test_what_is_shared_may_be_a_plain_number():
    layers, params, rngs, streams = of_layers(1, dtype=np.float32)

    def loss(stack, shared):
        return stack(layers, params, rngs, shared, *streams)[0]["a"].sum()

    got = jax.grad(lambda x: loss(reversible.stack, x))(1.25)
    want = jax.grad(lambda x: loss(unrolled, x))(1.25)
    assert float(got) == pytest.approx(float(want), rel=1e-5)


def test_differentiating_by_what_a_half_closes_over_is_an_error():
    _, params, rngs, streams = of_layers(1, dtype=np.float32)

    def loss(gain):
        def half(params, x, rng, shared, kept):
            return {"a": x["a"] * gain}, kept

        y1, _ = reversible.stack(((half, half),), params[:1], rngs[:1], None, *streams)
        return y1["a"].sum()

    with pytest.raises(Exception, match="closed-over value|unexpected tracer"):
        jax.grad(loss)(1.5)


def test_gradients_in_float32_are_near_those_of_plain_autodiff():
    layers, params, rngs, streams = of_layers(6, dtype=np.float32)
    shared = jnp.asarray(1.25)
    got = loss_of(reversible.stack, layers, rngs, shared)(params, streams)
    want = loss_of(unrolled, layers, rngs, shared)(params, streams)
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)


def test_inputs_are_found_again_after_24_layers():
    layers, params, rngs, streams = of_layers(12, dtype=np.float32)
    shared = jnp.asarray(1.25)
    outputs, _, kept = reversible.layers_apart(layers, params, rngs, shared, *streams)
    zeros = jax.tree.map(jnp.zeros_like, outputs)
    for i in reversed(range(12)):
        at = jax.tree.map(lambda x, i=i: x[i], (params, rngs, kept))
        for halves, mine, keys, ints in reversed([*zip(layers, *at, strict=True)]):
            outputs, *_ = reversible._undo(
                halves, mine, keys, shared, ints, outputs, zeros
            )
    for got, want in zip(*map(jax.tree.leaves, (outputs, streams)), strict=True):
        assert np.abs(got - want).max() < 1e-4


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.full(but=["1"])
def test_layers_of_any_number_of_halves(count):
    with jax.enable_x64(True):
        _, params, _, streams = of_layers(3)
        layers = ((tanh_half,) * count, (linear_half,) * count)
        params = tuple((pair[i],) * count for i, pair in enumerate(params[:2]))
        params = (
            (params[0][0],) * count,
            (params[1][0] | {"b": np.ones((3, WIDTH))},) * count,
        )
        keys = jax.random.split(jax.random.key(3), (2, count, 3))
        rngs = tuple(map(tuple, keys))
        shared = jnp.asarray(1.25)
        got = loss_of(reversible.stack, layers, rngs, shared)(params, streams)
        want = loss_of(unrolled, layers, rngs, shared)(params, streams)
        x1, x2 = (x["a"] for x in streams)
        (y1, y2, _) = reversible.layer(
            layers[1],
            [jax.tree.map(lambda x: x[0], p) for p in params[1]],
            keys[1][:, 0],
            shared,
            *streams,
        )
        for _ in range(count):
            x1, x2 = (
                x2,
                x1
                + linear_half(
                    {k: v[0] for k, v in params[1][0].items()},
                    {"a": x2},
                    None,
                    None,
                    None,
                )[0]["a"],
            )
    np.testing.assert_allclose(y1["a"], x1, atol=1e-12)
    np.testing.assert_allclose(y2["a"], x2, atol=1e-12)
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_what_is_kept_decides_even_if_rounding_would_not():
    # A half that looks at its stream only through what it kept.
    def choosy(params, x, rng, shared, kept):
        del rng, shared
        if kept is None:
            kept = (x > 0).astype(jnp.int32)
        return params * kept, kept

    def nothing(params, x, rng, shared, kept):
        del params, rng, shared
        return jnp.zeros_like(x), kept

    keys = jax.random.split(jax.random.key(0), (2, 1))
    x1, x2 = jnp.array([1e8]), jnp.array([1e-9])

    def loss(params):
        layers = ((nothing, choosy),)
        # g reads y1 = x1; f's part of y1 is lost beside 1e8.
        rngs = ((keys[0], keys[1]),)
        _, y2 = reversible.stack(layers, ((params, params),), rngs, None, x1, x2)
        return y2.sum()

    np.testing.assert_array_equal(jax.grad(loss)(jnp.ones((1, 1))), [[1.0]])


def temporary_bytes(stack, repeats):
    """Of a compiled gradient; halves that keep no integers."""
    _, params, rngs, _ = of_layers(repeats, dtype=np.float32)
    params = [(x, x) for x in (params[0][1], params[1][0])]
    layers = [(linear_half, linear_half)] * 2
    streams = [{"a": jnp.zeros((64, 64, WIDTH))}] * 2
    lowered = loss_of(stack, layers, rngs, jnp.asarray(1.0)).lower(params, streams)
    return lowered.compile().memory_analysis().temp_size_in_bytes


def test_memory_does_not_grow_with_depth():
    assert temporary_bytes(reversible.stack, 24) < 1.1 * temporary_bytes(
        reversible.stack, 6
    )


def test_memory_of_plain_autodiff_grows_with_depth():
    plain = reversible.plain_stack
    assert temporary_bytes(plain, 24) > 3 * temporary_bytes(plain, 6)
