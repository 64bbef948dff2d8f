import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_job
from flax import linen as nn
from tpu_process import in_a_process
from training_runs import plan_of
from trees import assert_close

from etc_jax.layers.common import Mlp
from etc_jax.layers.stack import Stack
from etc_jax.sharding import (
    DEFAULT_RULES,
    MeshConfig,
    logical_rules,
    make_mesh,
    tree_shardings,
)
from etc_jax.sharding.batch import batch_shardings, to_global
from etc_jax.training.accumulation import loss_and_gradient, split_rows
from etc_jax.training.preflight import collectives, plan, topology

COLLECTIVES = ("all-gather", "all-to-all", "collective-permute")


FACTORS = {"hot": 0.8, "cold": 0.3, "never": 5.0}


def terms(params, batch, rng, deterministic):
    """Terms of which each has weights of its own; the noise shows the key."""
    assert not deterministic
    x = jnp.tanh(batch["x"] @ params["w"])
    weights = {name: batch[name] for name in FACTORS}
    sums = {name: (jnp.sum(x * w), jnp.sum(w)) for name, w in weights.items()}
    return {**sums, "noise": (jax.random.uniform(rng), 1)}


def terms_case():
    """Rows of very unequal weights, some of them of none."""
    rng = np.random.default_rng(0)
    batch = {
        "x": rng.normal(size=(16, 3)),
        "hot": np.repeat([66.0, 3, 0, 1], 4),
        "cold": np.float64(rng.random(16) < 0.2),
        "never": np.zeros(16),
    }
    return {"w": rng.normal(size=3)}, batch


@pytest.mark.parametrize("steps", [1, 2, 4, 8, 16])
@pytest.mark.full(but=["1", "4"])
def test_loss_and_gradient_are_those_of_the_whole_batch(steps):
    with jax.enable_x64(True):
        params, batch = jax.tree.map(jnp.asarray, terms_case())
        assert 0 < batch["cold"].sum() < 16

        def whole(params):
            x = jnp.tanh(batch["x"] @ params["w"])
            hot, cold = (jnp.average(x, weights=batch[k]) for k in ("hot", "cold"))
            return 0.8 * hot + 0.3 * cold

        want, of_whole = jax.value_and_grad(whole)(params)
        loss, sums, gradient = loss_and_gradient(
            terms, params, batch, jax.random.key(1), loss_weights=FACTORS, steps=steps
        )
        np.testing.assert_allclose(loss, want, rtol=1e-12)
        np.testing.assert_allclose(gradient["w"], of_whole["w"], rtol=1e-12)
        assert sums["hot"][1] == 4 * 70 and sums["noise"][1] == steps


def test_microbatches_draw_apart():
    params, batch = jax.tree.map(np.float32, terms_case())
    rng = jax.random.key(3)
    _, sums, _ = loss_and_gradient(
        terms, params, batch, rng, loss_weights=FACTORS, steps=2
    )
    noise = [jax.random.uniform(jax.random.fold_in(rng, i)) for i in range(2)]
    assert float(sums["noise"][0]) == pytest.approx(float(sum(noise)))
    assert float(noise[0]) != float(noise[1])


def test_a_term_that_the_loss_function_does_not_give_is_named():
    params, batch = jax.tree.map(np.float32, terms_case())
    with pytest.raises(ValueError, match="no sum and weight of cool, .* gives hot, co"):
        loss_and_gradient(
            terms, params, batch, jax.random.key(0), loss_weights={"cool": 1.0}
        )
    with pytest.raises(
        TypeError, match=r"to give {name: \(sum, weight\)}.*got a tuple"
    ):
        loss_and_gradient(lambda *args: (0.0, {}), params, batch, jax.random.key(0))


@pytest.mark.parametrize("steps", [1, 4])
def test_weights_cost_no_second_forward_pass(steps):
    """Of a pass that counts weights, XLA keeps what they depend on."""
    params, batch = jax.tree.map(np.float32, terms_case())

    def step(params, batch):
        return loss_and_gradient(
            terms, params, batch, jax.random.key(0), loss_weights=FACTORS, steps=steps
        )

    text = jax.jit(step).lower(params, batch).compile().as_text()
    assert text.count(" tanh(") == 1


def test_low_precision_gradients_are_summed_in_float32():
    def loss_fn(params, batch, rng, deterministic):
        total = (params["w"] * batch["x"]).sum().astype(jnp.float32)
        return {"loss": (total, batch["x"].size)}

    # In bfloat16 256 + 1 is 256, so a plain sum would stall there.
    x = np.array([256.0] + [1.0] * 15, np.float32)
    batch = {"x": x.astype(jnp.bfloat16)}
    params = {"w": jnp.bfloat16(1)}
    _, _, gradient = loss_and_gradient(
        loss_fn, params, batch, jax.random.key(0), steps=16
    )
    assert gradient["w"].dtype == jnp.bfloat16
    assert float(gradient["w"]) == float(jnp.bfloat16((256 + 15) / 16))


def test_rows_are_dealt_in_turn_and_scalars_repeated():
    batch = {"x": np.arange(6), "scalar": np.float32(7)}
    got = split_rows(batch, 2)
    assert got["x"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert got["scalar"].tolist() == [7, 7]
    with pytest.raises(ValueError, match="6 rows is not divisible into 4"):
        split_rows(batch, 4)


def compiled_text(split, mesh):
    """HLO of a mean over microbatches of rows that are split over the mesh."""
    batch = to_global({"x": np.ones((32, 4), np.float32)}, mesh, 32)

    def f(w, batch):
        def add(total, rows):
            return total + jnp.tanh(rows["x"] @ w).sum(), None

        return jax.lax.scan(add, jnp.zeros(()), split(batch))[0]

    with jax.set_mesh(mesh), logical_rules(DEFAULT_RULES):
        run = jax.jit(f, in_shardings=(None, batch_shardings(batch, mesh)))
        return run.lower(jnp.ones((4, 4)), batch).compile().as_text()


@pytest.mark.parametrize("sizes", [(8, 1, 1), (2, 4, 1)])
def test_no_row_travels(sizes):
    mesh = make_mesh(MeshConfig(*sizes))
    text = compiled_text(lambda batch: split_rows(batch, 4), mesh)
    assert "all-reduce" in text
    assert not any(name in text for name in COLLECTIVES)


def test_contiguous_microbatches_would_be_seen_to_travel():
    def contiguous(batch):
        x = batch["x"].reshape(4, 8, 4)
        spec = jax.P(None, ("data", "fsdp"))
        return {"x": jax.lax.with_sharding_constraint(x, spec)}

    text = compiled_text(contiguous, make_mesh(MeshConfig()))
    assert any(name in text for name in COLLECTIVES)


def test_gradients_are_summed_in_the_shards_of_their_parameters():
    config = toy_job.config(
        mesh__fsdp=8, train__accumulation_steps=2, train__batch_size=16
    )
    made = plan_of(config)
    with plan.on_mesh(made.mesh):
        text = plan.trace_step(made).lower().compile().as_text()
    loops = [line for line in text.splitlines() if " while(" in line]
    # The kernels [16, 32] and [32, 16] of the MLP lie over 8 devices.
    assert any("f32[2,32]" in line and "f32[32,2]" in line for line in loops)


class Feedforward(nn.Module):
    """One layer with a residual."""

    width: int

    @nn.compact
    def __call__(self, x, shared):
        del shared
        return x + Mlp(self.width, "relu", 0.1, x.dtype, name="mlp")(x), None


def stack_of(dtype, width=32):
    make = functools.partial(Feedforward, width)
    return Stack(make, 4, remat_policy="full", dtype=jnp.dtype(dtype))


def stack_gradient(params, batch, *, steps, dtype="bfloat16", width=32):
    """Gradient of the mean output of four scanned layers."""

    def loss_fn(params, batch, rng, deterministic):
        x = batch["x"].astype(dtype)
        out = stack_of(dtype, width).apply({"params": params}, x, None)
        losses = jnp.sin(out.astype(jnp.float32))
        return {"loss": (losses.sum(), losses.size)}

    key = jax.random.key(0)
    return loss_and_gradient(loss_fn, params, batch, key, steps=steps, dtype=dtype)[2]


def on_eight(params, batch, mesh=None, **options):
    """`stack_gradient` compiled for weights that lie over 8 devices."""
    mesh = mesh or make_mesh(MeshConfig(data=1, fsdp=8))
    layout = tree_shardings(params, mesh)
    run = functools.partial(stack_gradient, **options)
    with plan.on_mesh(mesh):
        rows = batch_shardings(batch, mesh)
        run = jax.jit(run, in_shardings=(layout, rows), out_shardings=layout)
        return run.lower(params, batch).compile()


def stack_case():
    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(64, 4, 16)).astype(np.float32)}
    params = stack_of("float32").init(jax.random.key(0), batch["x"], None)["params"]
    return params, batch


def test_collected_once_or_not_the_gradient_is_that_of_one_device():
    params, batch = stack_case()
    want = jax.jit(functools.partial(stack_gradient, steps=1, dtype="float32"))
    got = on_eight(params, batch, steps=4, dtype="float32")(params, batch)
    assert_close(got, want(params, batch), rtol=1e-5, atol=1e-8)


def test_weights_are_collected_once_a_step_whatever_the_microbatches():
    texts = (on_eight(*stack_case(), steps=n).as_text() for n in (1, 2, 8))
    once, two, eight = (collectives.count(text)["all-gather"] for text in texts)
    weights = 4 * 2 * 16 * 32
    # As CPUs have no products of bfloat16, their compiler may widen what travels.
    assert 2 * weights <= two.result_bytes <= 4 * weights
    assert eight.result_bytes == two.result_bytes
    # Each layer's, in the forward and in the backward pass.
    assert once.result_bytes == 2 * two.result_bytes


def check_the_bytes_of_a_tpu():
    """Compiles for absent chips; in a process of its own, as libtpu stays loaded."""
    mesh = topology.mesh_over(MeshConfig(data=1, fsdp=8), topology.devices("v5e:2x4"))
    batch = {"x": jax.ShapeDtypeStruct((64, 512, 1024), jnp.bfloat16)}
    params = jax.eval_shape(
        stack_of("bfloat16", 4096).init, jax.random.key(0), batch["x"], None
    )["params"]

    def brought(steps):
        compiled = on_eight(params, batch, mesh, steps=steps, width=4096)
        traffic = collectives.count(compiled.as_text())
        return sum(kind.result_bytes for kind in traffic.values())

    # Gradients are reduced four times, weights collected once: 224 MiB beside 132.
    # Collected in each microbatch it would be 528.
    assert brought(4) < 2 * brought(1)


@pytest.mark.tpu_aot
def test_on_tpus_more_microbatches_bring_few_more_bytes():
    in_a_process(__name__, check_the_bytes_of_a_tpu)
