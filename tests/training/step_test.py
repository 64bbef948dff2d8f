import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_job
from trees import assert_close

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.sharding.batch import batch_shardings, replicated, to_global
from etc_jax.training.optimizers.optimizer import make_optimizer
from etc_jax.training.optimizers.schedule import make_schedule
from etc_jax.training.state import abstract_state, init_state
from etc_jax.training.step import make_eval_step, make_train_step

MODEL = toy_job.ToyConfig()


def tx_for(config):
    return make_optimizer(
        config.optimizer,
        make_schedule(config.schedule, learning_rate=0.01, num_steps=20),
    )


def toy_init(rng):
    return toy_job.init_params(MODEL, rng)


def toy_loss(*args):
    return toy_job.loss_fn(MODEL, *args)


def losses_on(mesh_config, devices, steps=20):
    mesh = make_mesh(mesh_config, jax.devices()[:devices])
    tx = tx_for(toy_job.config(train__num_steps=20))
    with jax.set_mesh(mesh):
        layout = abstract_state(toy_init, tx, mesh)
        state = init_state(toy_init, tx, layout, jax.random.key(0))
        batch = toy_job.rows_at(MODEL, 0, np.arange(8))
        shardings = jax.tree.map(lambda x: x.sharding, state)
        step = jax.jit(
            make_train_step(toy_loss, tx),
            in_shardings=(shardings, batch_shardings(batch, mesh), replicated(mesh)),
            out_shardings=(shardings, replicated(mesh)),
            donate_argnums=0,
        )
        found, rng = [], jax.device_put(jax.random.key(1), replicated(mesh))
        for i in range(steps):
            batch = to_global(toy_job.rows_at(MODEL, i, np.arange(8)), mesh, 8)
            state, metrics = step(state, batch, rng)
            found.append(float(metrics["loss"]))
    return found


@pytest.fixture(scope="module")
def one_device():
    return losses_on(MeshConfig(), 1)


@pytest.mark.parametrize("sizes", [(8, 1, 1), (2, 2, 2), (1, 8, 1), (1, 1, 8)])
@pytest.mark.full(but=["sizes1"])
def test_eight_devices_compute_what_one_computes(one_device, sizes):
    assert one_device[-1] < one_device[0] - 0.5
    np.testing.assert_allclose(losses_on(MeshConfig(*sizes), 8), one_device, rtol=1e-5)


def test_state_is_made_in_shards():
    mesh = make_mesh(MeshConfig(data=1, fsdp=4, tensor=2))
    tx = tx_for(toy_job.config())
    abstract = abstract_state(toy_init, tx, mesh)
    state = init_state(toy_init, tx, abstract, jax.random.key(0))
    for leaf, want in zip(
        jax.tree.leaves(state), jax.tree.leaves(abstract), strict=True
    ):
        assert leaf.sharding.is_equivalent_to(want.sharding, leaf.ndim)
        assert (leaf.shape, leaf.dtype) == (want.shape, want.dtype)
    adam = state.opt_state.inner_state[1][0]
    for moment in (adam.mu, adam.nu):
        kernel = moment["mlp"]["wi"]["kernel"]
        assert kernel.sharding.spec == jax.P("fsdp", "tensor")
        assert kernel.addressable_shards[0].data.shape == (4, 16)
    assert_close(state.params, toy_init(jax.random.key(0)), rtol=1e-6)


def quadratic(params, batch, rng, deterministic):
    """Gradient with respect to w is batch["g"]; the noise shows which rng is used."""
    noise = 0.0 if deterministic else jax.random.normal(rng)
    loss = jnp.vdot(params["mlp"]["wi"]["kernel"], batch["g"])
    one = jnp.float32(1)
    return {"loss": (loss, one), "noise": (noise, one)}


def start(config=None):
    tx = tx_for(config or toy_job.config(schedule__warmup_steps=0))
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    shape = (2, 2)

    def init(rng):
        return {"mlp": {"wi": {"kernel": jnp.full(shape, 2.0)}}}

    state = init_state(init, tx, abstract_state(init, tx, mesh), jax.random.key(0))
    return tx, state, jax.jit(make_train_step(quadratic, tx))


def test_first_adamw_step_by_hand():
    _, state, step = start()
    grads = np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)
    new, metrics = step(state, {"g": grads}, jax.random.key(0))
    # Bias-corrected Adam's first step is g / (|g| + eps) of the clipped gradient.
    clipped = grads / 5.0
    direction = clipped / (np.abs(clipped) + 1e-6)
    expected = 2.0 - 0.01 * (direction + 0.01 * 2.0)
    np.testing.assert_allclose(new.params["mlp"]["wi"]["kernel"], expected, rtol=1e-6)
    assert float(metrics["grad_norm"]) == pytest.approx(5.0)
    assert float(metrics["learning_rate"]) == pytest.approx(0.01)
    norm = np.linalg.norm(expected)
    assert float(metrics["param_norm"]) == pytest.approx(norm, rel=1e-6)
    assert int(new.step) == 1 and int(metrics["skipped"]) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_changes_nothing_but_the_step(bad):
    _, state, step = start()
    good = np.ones((2, 2), np.float32)
    state, _ = step(state, {"g": good}, jax.random.key(0))
    new, metrics = step(state, {"g": good * bad}, jax.random.key(0))
    assert int(metrics["skipped"]) == 1
    assert int(new.step) == int(state.step) + 1
    assert toy_job.digest(new.params) == toy_job.digest(state.params)
    assert toy_job.digest(new.opt_state) == toy_job.digest(state.opt_state)


def test_randomness_is_a_function_of_the_step():
    _, state, step = start()
    batch = {"g": np.ones((2, 2), np.float32)}
    rng = jax.random.key(5)
    drawn = []
    for _ in range(3):
        state, metrics = step(state, batch, rng)
        drawn.append(float(metrics["sums"]["noise"][0]))
    expected = [jax.random.normal(jax.random.fold_in(rng, i)) for i in range(3)]
    np.testing.assert_allclose(drawn, np.array(expected), rtol=1e-6)


def test_evaluation_is_deterministic_and_has_a_loss():
    _, state, _ = start()
    sums = make_eval_step(quadratic)(state.params, {"g": np.ones((2, 2), np.float32)})
    assert float(sums["noise"][0]) == 0
    assert [float(x) for x in sums["loss"]] == [8.0, 1.0]
