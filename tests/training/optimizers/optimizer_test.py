import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimizer_updates
import pytest
from flax import linen as nn
from optimizer_updates import NAMES, RATE, config, flat_params, like, make
from trees import assert_close

from etc_jax.layers.stack import Stack, stack_layers, unstack_layers
from etc_jax.training.optimizers.optimizer import (
    decay_mask,
    lamb_bert,
    learning_rate_of,
    make_optimizer,
    mask_excluding,
    scale_by_layer_trust_ratio,
)


def run(tx, params, gradients):
    """Parameters after each update."""
    return [params for params, _ in optimizer_updates.run(tx, params, gradients)]


def test_lamb_of_apart_layers_is_that_of_optax():
    params = flat_params()
    gradients = like(params, 1, 4)
    c = config("lamb")
    peer = optax.chain(
        optax.clip_by_global_norm(c.clip_norm),
        optax.lamb(
            RATE,
            b1=c.b1,
            b2=c.b2,
            eps=c.eps,
            weight_decay=c.weight_decay,
            mask=decay_mask,
        ),
    )
    for got, want in zip(
        run(make("lamb"), params, gradients), run(peer, params, gradients), strict=True
    ):
        assert_close(got, want, rtol=1e-5, atol=1e-7)


def by_hand(params, gradients, excluded, lamb, wd=0.01, b1=0.9, b2=0.999, eps=1e-6):
    """The official update, in float64: {path: array} -> values after each update."""
    w = {k: v.astype(np.float64) for k, v in params.items()}
    m, v = ({k: np.zeros_like(x) for k, x in w.items()} for _ in range(2))
    seen = []
    for gradient in gradients:
        norm = np.sqrt(sum((np.float64(g) ** 2).sum() for g in gradient.values()))
        for k in w:
            g = np.float64(gradient[k]) / max(norm, 1.0)
            m[k] = b1 * m[k] + (1 - b1) * g
            v[k] = b2 * v[k] + (1 - b2) * g**2
            update, ratio = m[k] / (np.sqrt(v[k]) + eps), 1.0
            if k not in excluded:
                update = update + wd * w[k]
                norms = np.linalg.norm(w[k]), np.linalg.norm(update)
                if lamb and min(norms) > 0:
                    ratio = norms[0] / norms[1]
            w[k] = w[k] - RATE * ratio * update
        seen.append(dict(w))
    return seen


@pytest.mark.parametrize("name", ["adamw_bert", "lamb_bert"])
def test_the_official_updates_by_hand(name):
    rng = np.random.default_rng(3)
    params = {
        "kernel": rng.normal(size=(3, 4)).astype(np.float32),
        "zero_kernel": np.zeros((2, 2), np.float32),
        "bias": rng.normal(size=4).astype(np.float32),
        "scale": np.ones(3, np.float32),
    }
    gradients = like(params, 4, 5)
    gradients[1]["zero_kernel"][:] = 0
    gradients[2] = jax.tree.map(lambda g: g / 100, gradients[2])  # below the clip norm
    want = by_hand(params, gradients, {"bias", "scale"}, name == "lamb_bert")
    got = run(make(name), params, gradients)
    for step, values in enumerate(got):
        for k in params:
            np.testing.assert_allclose(
                values[k], want[step][k], rtol=2e-5, atol=2e-6, err_msg=f"{k} {step}"
            )


def test_an_update_of_zero_changes_nothing():
    params = {"kernel": np.ones((2, 2), np.float32)}
    zero = {"kernel": np.zeros((2, 2), np.float32)}
    for name in ("lamb", "lamb_bert"):
        (got,) = run(make(name, weight_decay=0.0), params, [zero])
        np.testing.assert_array_equal(got["kernel"], params["kernel"])


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, shared):
        x = x + nn.Dense(4, name="mlm_dense")(x)
        return nn.LayerNorm(name="mlp_norm")(x), None


def stacks():
    """(unrolled, scanned) parameters of the same three layers of different sizes."""
    x = jnp.ones((1, 4))

    def init(scan):
        stack = Stack(lambda: Layer(name="layer"), num_layers=3, scan=scan)
        return stack.init(jax.random.key(0), x, None)["params"]

    unrolled = init(scan=False)
    unrolled = {
        name: jax.tree.map(lambda a, k=k: (a + 0.1) * 3.0**k, layer)
        for k, (name, layer) in enumerate(sorted(unrolled.items()))
    }
    unrolled["token_embedder"] = {"embedding": jnp.ones((5, 4))}
    scanned = stack_layers(unrolled)
    made = {**init(scan=True), "token_embedder": scanned["token_embedder"]}
    shapes = jax.tree.map(jnp.shape, made)
    assert shapes == jax.tree.map(jnp.shape, scanned)
    return unrolled, scanned


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.full(but=["lamb", "adafactor"])
def test_scanned_layers_are_updated_as_unrolled_ones(name):
    unrolled, scanned = stacks()
    gradients = like(unrolled, 5, 3)
    # Gradients of other sizes layer by layer: one norm over the stack would show.
    for gradient in gradients:
        for k in range(3):
            gradient[f"layers_{k}"] = jax.tree.map(
                lambda g, k=k: g * 10.0**-k, gradient[f"layers_{k}"]
            )
    apart = run(make(name), unrolled, gradients)
    together = run(make(name), scanned, [stack_layers(g) for g in gradients])
    for want, got in zip(apart, together, strict=True):
        assert_close(unstack_layers(got), want, rtol=1e-5, atol=1e-6)


def test_one_norm_over_a_stack_would_be_seen():
    unrolled, scanned = stacks()
    gradients = like(unrolled, 5, 1)
    peer = optax.lamb(RATE, eps=1e-6)
    apart = run(peer, unrolled, gradients)[0]
    together = unstack_layers(run(peer, scanned, [stack_layers(gradients[0])])[0])
    kernels = [
        tree["layers_0"]["layer"]["mlm_dense"]["kernel"] for tree in (apart, together)
    ]
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-2


def test_a_mask_by_name_leaves_parameters_alone():
    tree = {"a/layer_norm/gamma": 1, "a/relative_bias_table": 1, "a/kernel": 1}
    mask = mask_excluding(r"LayerNorm|layer_norm|bias")
    assert mask(tree) == {
        "a/layer_norm/gamma": False,
        "a/relative_bias_table": False,
        "a/kernel": True,
    }
    params = {k: np.full((2, 2), 2.0, np.float32) for k in tree}
    zeros = jax.tree.map(np.zeros_like, params)
    tx = lamb_bert(config("lamb_bert"), optax.constant_schedule(RATE), mask=mask)
    (got,) = run(tx, params, [zeros])
    for name, decayed in mask(tree).items():
        # The update of a decayed one is wd x w, and the trust ratio makes it w.
        want = 2.0 * (1 - RATE) if decayed else 2.0
        np.testing.assert_allclose(got[name], want, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_learning_rate_is_in_the_state(name):
    tx = make_optimizer(config(name), optax.linear_schedule(0.0, 1.0, 4))
    params = {"mlm_dense": {"kernel": jnp.ones((2, 2))}}
    state = tx.init(params)
    for count in range(3):
        updates, state = tx.update(params, state, params)
        assert float(learning_rate_of(state)) == pytest.approx(count / 4)
        if count == 0:
            assert not np.any(updates["mlm_dense"]["kernel"])


def test_the_trust_ratio_asks_for_parameters():
    tx = scale_by_layer_trust_ratio()
    params = {"kernel": jnp.ones((2, 2))}
    with pytest.raises(ValueError, match="pass params"):
        tx.update(params, tx.init(params))


def test_norms_and_biases_are_not_decayed():
    decayed = ["token_embedder/embedding", "mlp/wi/kernel", "long_labels/embedding"]
    spared = [
        "long_labels/bias",
        "mlp/wi/bias",
        "mlp_norm/scale",
        "mlp_norm/bias",
        "mlm_bias",
        "cpc_log_temperature",
        "cpc/log_temperature",
    ]
    tree = {}
    for path in decayed + spared:
        node = tree
        *parents, leaf = path.split("/")
        for name in parents:
            node = node.setdefault(name, {})
        node[leaf] = jnp.ones(())
    flat = jax.tree_util.tree_flatten_with_path(decay_mask({"a": tree}))[0]
    got = {
        jax.tree_util.keystr(k, simple=True, separator="/").removeprefix("a/"): v
        for k, v in flat
    }
    assert got == {p: True for p in decayed} | {p: False for p in spared}


@pytest.mark.parametrize(
    "options",
    [{}, {"multiply_by_parameter_scale": False}, {"momentum": 0.9, "eps": 1e-20}],
)
def test_adafactor_of_matrices_is_that_of_optax(options):
    params = flat_params()
    gradients = like(params, 1, 4)
    gradients[1]["mlp"]["wi"]["kernel"] *= 100  # so that the update is clipped
    c = config("adafactor", options, weight_decay=0.0, clip_norm=1e9)
    peer = optax.adafactor(
        RATE,
        min_dim_size_to_factor=2,
        multiply_by_parameter_scale=c.adafactor.multiply_by_parameter_scale,
        momentum=c.adafactor.momentum or None,
        eps=c.adafactor.eps,
    )
    got = run(make_optimizer(c, optax.constant_schedule(RATE)), params, gradients)
    for mine, its in zip(got, run(peer, params, gradients), strict=True):
        assert_close(mine, its, rtol=2e-5, atol=1e-6)


def test_adafactor_sees_a_projection_as_one_matrix():
    rng = np.random.default_rng(2)
    kernel = rng.normal(size=(6, 2, 4)).astype(np.float32)
    gradients = [rng.normal(size=(6, 2, 4)).astype(np.float32) for _ in range(3)]

    def updated(path, shape):
        def tree(x):
            return {path: {"kernel": x.reshape(shape)}}

        tx = make("adafactor", weight_decay=0.0)
        return run(tx, tree(kernel), [tree(g) for g in gradients])[-1][path]["kernel"]

    flat = updated("mlm_dense", (6, 8))
    np.testing.assert_allclose(
        updated("long_query", (6, 2, 4)).reshape(6, 8), flat, rtol=1e-6, atol=1e-7
    )
    state = make("adafactor").init({"long_query": {"kernel": kernel}})
    moments = state.inner_state[1]
    shapes = [x["long_query"]["kernel"].shape for x in moments[1:]]
    assert shapes == [(6,), (2, 4), ()]


def test_adafactor_keeps_all_squares_of_small_matrices_and_vectors():
    params = {"mlm_dense": {"kernel": np.ones((8, 7)), "bias": np.ones(9)}}
    params = jax.tree.map(np.float32, params)
    moments = make("adafactor", adafactor={"min_dim_size_to_factor": 8}).init(params)
    shapes = jax.tree.map(jnp.shape, moments.inner_state[1])
    assert shapes.v == {"mlm_dense": {"kernel": (8, 7), "bias": (9,)}}
    assert shapes.v_row == shapes.v_col == {"mlm_dense": {"kernel": (), "bias": ()}}


def test_weight_decay_of_adafactor_is_times_the_learning_rate():
    params = {"mlm_dense": {"kernel": np.full((2, 2), 2.0, np.float32)}}
    zeros = jax.tree.map(np.zeros_like, params)
    (got,) = run(make("adafactor", weight_decay=0.25), params, [zeros])
    want = 2.0 * (1 - RATE * 0.25)
    np.testing.assert_allclose(got["mlm_dense"]["kernel"], want, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_moments_of_parameters_in_bfloat16_are_in_float32(name):
    narrow = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), flat_params())
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), narrow)
    gradients = like(narrow, 7, 1)
    gradients = [jax.tree.map(lambda g: jnp.asarray(g, jnp.bfloat16), gradients[0])]
    tx = make(name)
    floats = [x for x in jax.tree.leaves(tx.init(narrow)) if x.dtype.kind != "i"]
    assert {x.dtype for x in floats} == {np.dtype("float32")}
    (got,) = run(tx, narrow, gradients)
    (want,) = run(
        tx, wide, [jax.tree.map(lambda g: g.astype(jnp.float32), gradients[0])]
    )
    # The update of float32, rounded once.
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a, b.astype(jnp.bfloat16)), got, want
    )
