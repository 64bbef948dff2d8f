"""Precision policies: what is stored in which type, and that it trains alike.

A policy is `model.dtype` / `train.param_dtype`: computed / stored.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mean_loss import loss_of
from random_sentences import token_cache
from tiny_model import token_ids

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text.packing import pack
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.sharding import MeshConfig, make_mesh, path_of
from etc_jax.training.job import Job
from etc_jax.training.preflight import plan
from etc_jax.training.state import init_state
from etc_jax.training.step import make_train_step

NAME = "precision_test"
VOCAB_SIZE, ROWS, STEPS = 40, 4, 24
IDS = token_ids(VOCAB_SIZE)
SIZES = PretrainingSizes(32, 8, mlm_capacity=8, cpc_long_length=12, cpc_global_length=3)
POLICIES = {
    "float32": ("float32", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "bfloat16_params": ("bfloat16", "bfloat16"),
}


@functools.cache
def reader():
    """Batches of random sentences."""
    cache = token_cache(IDS, 20)
    text = pack(cache, long_length=32, global_length=8, max_sentence_tokens=10)
    return PretrainingReader(cache, text, IDS, SIZES, batch_size=ROWS, seed=0)


def batch_at(step, rows=None):
    """Of MLM alone: the masked sentences would double the time of compiling."""
    batch = reader().batch_at(step, rows)
    return {k: v for k, v in batch.items() if not k.startswith("cpc_")}


@registry.register("objective_config", NAME)
@dataclasses.dataclass(frozen=True)
class Section(MlmCpcConfig):
    """That of this job; its batches are not those of a source."""

    reads = ()


@registry.register("objective", NAME)
def make_job(config, folder):
    del folder
    objective = dataclasses.replace(config.objective, cpc_weight=0.0)
    task = Pretraining(config.model, objective)
    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        loss_weights=task.loss_weights,
        train_batch=batch_at,
        eval_batches=lambda rows: iter([batch_at(0, rows)]),
        tokens_per_step=ROWS * 32,
        check_batch=lambda batch: [],
    )


def config(policy, optimizer="adamw"):
    dtype, param_dtype = POLICIES[policy]
    values = config_lib.default_config()
    values.model.update(
        vocab_size=VOCAB_SIZE,
        embed_dim=32,
        num_layers=2,
        num_heads=2,
        mlp_dim=64,
        radius=4,
        max_distance=3,
        num_labels=10,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        dtype=dtype,
    )
    values.objective.name = NAME
    values.data.vocab_size = VOCAB_SIZE
    values.optimizer.update(name=optimizer, learning_rate=5e-3)
    values.train.update(num_steps=STEPS, batch_size=ROWS, param_dtype=param_dtype)
    return config_lib.from_config_dict(values)


@functools.cache
def planned(policy, optimizer="adamw"):
    c = config(policy, optimizer)
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    return plan.make_plan(c, plan.make_job(c, None), mesh, check_batches=1)


@functools.cache
def trained(policy):
    """(losses of all steps, the state at the end)."""
    p = planned(policy)
    factors = p.job.loss_weights
    step = jax.jit(make_train_step(p.job.loss_fn, p.tx, loss_weights=factors))
    losses = []
    with plan.on_mesh(p.mesh):
        key = jax.random.key(0)
        state = init_state(p.job.init_params, p.tx, p.state, key)
        for i in range(STEPS):
            batch = p.job.train_batch(i % 4, np.arange(ROWS))
            state, metrics = step(state, batch, jax.random.key(1))
            losses.append(float(metrics["loss"]))
            assert not metrics["skipped"]
    return np.array(losses), state


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "float32"])
@pytest.mark.full(but=["bfloat16_params"])
def test_lower_precision_trains_near_float32(policy):
    want, got = trained("float32")[0], trained(policy)[0]
    print(f"{policy}: {got[0]:.4f} -> {got[-4:].mean():.4f}; {want[-4:].mean():.4f}")
    np.testing.assert_allclose(got[0], want[0], rtol=1e-2)
    assert want[-4:].mean() < 0.95 * want[:4].mean()
    np.testing.assert_allclose(got, want, rtol=2e-2)


def dtypes(tree):
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {path_of(k): x.dtype.name for k, x in flat if x.dtype.kind != "i"}


@pytest.mark.parametrize("policy", POLICIES)
def test_only_matrices_and_tables_are_stored_narrow(policy):
    stored = POLICIES[policy][1]
    for state in (planned(policy).state, trained(policy)[1]):
        for path, dtype in dtypes(state.params).items():
            matrix = path.endswith(("kernel", "embedding"))
            assert dtype == (stored if matrix else "float32"), path


@pytest.mark.parametrize("optimizer", ["adamw", "lamb_bert", "adafactor"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_optimizer_is_in_float32(policy, optimizer):
    state = planned(policy, optimizer).state
    assert set(dtypes(state.opt_state).values()) == {"float32"}


def test_narrow_storage_halves_the_parameters():
    def size(policy):
        return plan.state_bytes(planned(policy).state.params)

    assert size("bfloat16") == size("float32")
    assert size("bfloat16_params") < 0.6 * size("float32")


def test_gradients_are_of_the_type_of_their_parameters():
    p = planned("bfloat16_params")
    gradient = jax.eval_shape(
        lambda params: jax.grad(loss_of(p.job), has_aux=True)(
            params, batch_at(0), jax.random.key(0), True
        )[0],
        p.state.params,
    )
    assert dtypes(gradient) == dtypes(p.state.params)


def test_small_updates_of_narrow_weights_are_lost():
    # What the documentation of train.param_dtype warns of.
    weight = jnp.ones((), jnp.bfloat16)
    assert weight + jnp.float32(1 / 512.0) * 0.99 != 1
    assert (weight + jnp.float32(1 / 512.0) * 0.99).astype(jnp.bfloat16) == 1


@pytest.mark.parametrize(
    "section, field, value, near",
    [
        ("model", "dtype", "bfloat", "did you mean 'bfloat16'?"),
        ("model", "remat_policy", "dot", "did you mean 'dots'?"),
        ("model", "remat_policy", "atention", "did you mean 'attention'?"),
        ("train", "param_dtype", "bf16", "did you mean 'bfloat16'?"),
        ("optimizer", "name", "adafacter", "did you mean 'adafactor'?"),
    ],
)
def test_a_wrong_name_gives_the_nearest_right_one(section, field, value, near):
    values = config_lib.to_dict(config("float32"))
    values[section][field] = value
    with pytest.raises(config_lib.ConfigError) as caught:
        config_lib.from_config_dict(values)
    ((path, message),) = caught.value.problems
    assert path == f"{section}.{field}" and near in message
