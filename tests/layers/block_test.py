"""The block and its halves, against plain numpy and against each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from etc_jax.base.types import Rows
from etc_jax.layers.block import AttentionHalf, Block, CrossAttentionHalf, MlpHalf
from etc_jax.layers.common import LayerNorm, Mlp, RmsNorm, chunked_mlp
from etc_jax.layers.reversible import LayerKind, TwoStreamStack

B, N, M, E, WIDE = 2, 5, 7, 6, 10
EPSILON = 1e-6
DTYPE = jnp.dtype("float64")


pytestmark = pytest.mark.usefixtures("float64")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


class Mean(nn.Module):
    """Stands for attention: every token gets a map of the mean of what it sees."""

    of_memory: bool = False

    @nn.compact
    def __call__(self, x, shared, own=None, kept=None):
        seen = shared["memory"] if self.of_memory else x
        kernel = self.param("kernel", nn.initializers.normal(1.0), (E, E), DTYPE)
        y = jnp.tanh(x) * (seen.mean(1, keepdims=True) @ kernel)
        if own is not None:
            y = y * own
        return y, y.shape[1] if kept is None else kept + 1


def parts(norm=LayerNorm, **mlp):
    options = {"stddev": 0.5, "dtype": DTYPE, "param_dtype": DTYPE} | mlp
    return {
        "attention": lambda name: Mean(name=name),
        "mlp": lambda name: Mlp(WIDE, "relu", name=name, **options),
        "norm": lambda name: norm(EPSILON, DTYPE, DTYPE, name=name),
    }


def made(module, *inputs):
    """Parameters, none of them as they begin."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    leaves, tree = jax.tree.flatten(shapes)
    drawn = [0.5 * normal(*x.shape, seed=i + 1) + 0.3 for i, x in enumerate(leaves)]
    return jax.tree.unflatten(tree, drawn)


# --- by hand --------------------------------------------------------------------------


def norm_by_hand(p, x):
    if "bias" in p:
        x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPSILON) * p["scale"]
    return y + p.get("bias", 0)


def mean_by_hand(p, x, seen):
    return np.tanh(x) * (seen.mean(1, keepdims=True) @ p["kernel"])


def mlp_by_hand(p, x):
    def dense(name, x):
        return x @ p[name]["kernel"] + p[name].get("bias", 0)

    hidden = dense("wi", x)
    if "wi_gate" in p:
        hidden = hidden * np.maximum(dense("wi_gate", x), 0)
    else:
        hidden = np.maximum(hidden, 0)
    return dense("wo", hidden)


def block_by_hand(p, x, memory, pre_norm, cross):
    def residual(x, norm, branch):
        if pre_norm:
            return x + branch(norm_by_hand(p[norm], x))
        return norm_by_hand(p[norm], x + branch(x))

    x = residual(x, "attention_norm", lambda y: mean_by_hand(p["attention"], y, y))
    if cross:
        of_memory = functools.partial(mean_by_hand, p["cross_attention"], seen=memory)
        x = residual(x, "cross_attention_norm", of_memory)
    return residual(x, "mlp_norm", functools.partial(mlp_by_hand, p["mlp"]))


@pytest.mark.parametrize("pre_norm", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("cross", [False, True], ids=["", "cross-attention"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"norm": RmsNorm, "gated": True, "use_bias": False}],
    ids=["BERT's parts", "T5's parts"],
)
def test_a_block_is_what_is_written_down(pre_norm, cross, choices):
    options = parts(**choices) | {"pre_norm": pre_norm}
    if cross:
        options["cross_attention"] = lambda name: Mean(True, name=name)
    block, x, shared = Block(**options), normal(B, N, E), {"memory": normal(B, M, E)}
    params = made(block, x, shared)
    assert ("bias" in params["mlp"]["wi"]) == (not choices)
    got, kept = jax.jit(block.apply)({"params": params}, x, shared)
    want = block_by_hand(params, x, shared["memory"], pre_norm, cross)
    np.testing.assert_allclose(got, want, atol=1e-12)
    assert kept == N


def test_attention_is_given_what_its_layer_has_and_keeps():
    block, x = Block(**parts(), pre_norm=True), normal(B, N, E)
    params = made(block, x, {})
    still, kept = block.apply({"params": params}, x, {}, 0.0, 41)
    want = x + mlp_by_hand(params["mlp"], norm_by_hand(params["mlp_norm"], x))
    np.testing.assert_allclose(still, want, atol=1e-12)
    assert kept == 42


def test_streams_have_norms_and_feed_forward_of_their_own_or_one_for_all():
    class Both(nn.Module):
        @nn.compact
        def __call__(self, x, shared, own=None, kept=None):
            return jax.tree.map(jnp.zeros_like, x), None

    x = Rows(normal(B, N, E), normal(B, 3, E, seed=1))
    names = {
        "attention_norm": Rows("a", "b"),
        "mlp_norm": Rows("c", "c"),
        "mlp_name": Rows("m", "m"),
        "laid_out": lambda x: x,
    }
    options = parts() | names | {"attention": lambda name: Both(name=name)}
    block = Block(**options, pre_norm=True)
    params = made(block, x, {})
    assert sorted(params) == ["a", "b", "c", "m"]
    got, _ = block.apply({"params": params}, x, {})
    for a, b in zip(got, x, strict=True):
        want = b + mlp_by_hand(params["m"], norm_by_hand(params["c"], b))
        np.testing.assert_allclose(a, want, atol=1e-12)


def test_some_tokens_at_a_time_are_all_of_them():
    class Chunked(nn.Module):
        size: int

        @nn.compact
        def __call__(self, x):
            options = {"stddev": 0.5, "dtype": DTYPE, "param_dtype": DTYPE}
            options |= {"mlp_dim": WIDE, "activation": "relu", "gated": True}
            return chunked_mlp(self.size, **options, name="mlp")(x)

    x, whole = normal(B, 23, E), Chunked(0)
    params = made(whole, x)

    def run(size, params, x):
        out = Chunked(size).apply({"params": params}, x)
        return jnp.sum(jnp.sin(out)), out

    want = jax.grad(run, (1, 2), has_aux=True)(0, params, x)
    for size in (1, 4, 23):
        assert jax.tree.structure(made(Chunked(size), x)) == jax.tree.structure(params)
        got = jax.jit(jax.grad(run, (1, 2), has_aux=True), static_argnums=0)(
            size, params, x
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), got, want
        )


# --- reversible decoders --------------------------------------------------------------


def decoder(repeats, reversible):
    options = parts(param_dtype=DTYPE) | {
        "cross_attention": lambda name: Mean(True, name=name),
        "parent": None,
    }
    halves = {"f": AttentionHalf, "cross": CrossAttentionHalf, "g": MlpHalf}
    make = {name: functools.partial(half, **options) for name, half in halves.items()}
    return TwoStreamStack((LayerKind("layer", make),), repeats, reversible)


def loss_of(repeats, reversible):
    stack, rng = decoder(repeats, reversible), jax.random.key(0)

    def loss(params, x, memory):
        y1, y2 = stack.apply({"params": params}, x, x, {"memory": memory}, rng)
        return jnp.sum(jnp.sin(y1) + jnp.cos(y2))

    return loss


def test_a_reversible_decoder_trains_its_encoder():
    x, memory = normal(B, N, E), normal(B, M, E, seed=3)
    rng = jax.random.key(0)
    params = made(decoder(4, True), x, x, {"memory": memory}, rng)
    got, want = (
        jax.jit(jax.value_and_grad(loss_of(4, reversible), (0, 1, 2)))(
            params, x, memory
        )
        for reversible in (True, False)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, want)
    assert np.abs(got[1][2]).max() > 1e-3


def test_memory_of_a_reversible_decoder_does_not_grow_with_depth():
    x, memory = normal(2, 512, E), normal(2, 512, E)
    rng = jax.random.key(0)

    def temporaries(repeats, reversible):
        stack = decoder(repeats, reversible)
        params = jax.eval_shape(
            lambda: stack.init(rng, x[:, :1], x[:, :1], {"memory": memory}, rng)
        )["params"]
        step = jax.jit(jax.grad(loss_of(repeats, reversible), (0, 2)))
        return step.lower(params, x, memory).compile().memory_analysis()

    flat, plain = (
        temporaries(24, reversible).temp_size_in_bytes
        - temporaries(6, reversible).temp_size_in_bytes
        for reversible in (True, False)
    )
    one = x.size * 8
    assert flat < one < 18 * one < plain
