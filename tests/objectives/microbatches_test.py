"""Whatever is trained, microbatches give loss and gradient of the whole batch."""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import masked_lm_test
import model_denoising_test
import numpy as np
import pretraining_loss_test
import pytest
import seq2seq_test
import toy_seq2seq
from learning import random_params
from r3f_learners_test import NAMES, case, model_for

from etc_jax.base import registry
from etc_jax.config.sections import R3fConfig
from etc_jax.layers import token_noise
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.objectives.seq2seq import Seq2Seq
from etc_jax.sharding import MeshConfig, make_mesh, tree_shardings
from etc_jax.sharding.batch import to_global
from etc_jax.training.accumulation import loss_and_gradient
from etc_jax.training.preflight.plan import on_mesh

ROWS = 8
NOISE = R3fConfig(0.3, 0.05)


def rows_of(batch):
    """Eight rows: four microbatches have each some rows of its own."""
    index = np.arange(ROWS) % len(next(iter(jax.tree.leaves(batch))))
    return jax.tree.map(lambda x: np.asarray(x)[index], batch)


def seq2seq():
    config = dataclasses.replace(seq2seq_test.CONFIG, dropout_rate=0.0)
    options = {"label_smoothing": 0.1, "z_loss": 1e-3, "r3f": NOISE}
    return Seq2Seq(config, toy_seq2seq.ToySeq2Seq, **options), seq2seq_test.BATCH


def masked_lm():
    batch = rows_of(masked_lm_test.make_batch())
    batch["mlm_weights"][1] = 0
    return masked_lm_test.TASK, batch


def causal_lm():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 23, (ROWS, 17)).astype(np.int32)
    sizes = np.array([16, 1, 0, 3, 5, 2, 0, 9])
    batch = {
        "tokens": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "target_weights": np.float32(np.arange(16) < sizes[:, None]),
    }
    return CausalLm(model_for("text_to_text", [], 23), EncoderForCausalLm), batch


def model_denoising():
    return model_denoising_test.task(), model_denoising_test.BATCH


def mlm_cpc():
    """The sentences of one microbatch are all there are: it has all negatives."""
    batch = rows_of(pretraining_loss_test.BATCH)
    batch["cpc_weights"][[1, 2, 3, 5, 6, 7]] = 0
    still = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    model = dataclasses.replace(pretraining_loss_test.MODEL, **still)
    return Pretraining(model, MlmCpcConfig()), batch


# "denoising" and "seq2seq" are one loss.
OBJECTIVES = {f.__name__: f for f in (seq2seq, masked_lm, causal_lm, mlm_cpc)}
OBJECTIVES |= {"model_denoising": model_denoising, "denoising": seq2seq}
COMPARED = sorted({*OBJECTIVES} - {"denoising"})


def test_each_objective_is_compared():
    own = {
        name
        for name in registry.names("objective")
        if registry.lookup("objective", name).__module__.startswith("etc_jax.")
    }
    assert own == {*OBJECTIVES, "data_set"}


def measured(task):
    """Compiled: (parameters, batch, microbatches) -> (loss and gradient, metrics)."""

    @functools.partial(jax.jit, static_argnums=2)
    def run(params, batch, steps):
        loss, sums, gradient = loss_and_gradient(
            task.loss,
            params,
            batch,
            jax.random.key(1),
            loss_weights=task.loss_weights,
            steps=steps,
        )
        return {"loss": loss, "gradient": gradient}, sums

    return run


def compare(task, batch, microbatches, mesh=None):
    """Of some microbatches against the whole batch on one device."""
    params, run = random_params(task, scale=0.2), measured(task)
    want, sums = run(params, batch, 1)
    assert all(sums[name][1] > 0 for name in task.loss_weights)
    if mesh is not None:
        rows = len(jax.tree.leaves(batch)[0])
        layout = tree_shardings(params, mesh)
        params, batch = jax.device_put(params, layout), to_global(batch, mesh, rows)
    for steps in microbatches:
        with contextlib.nullcontext() if mesh is None else on_mesh(mesh):
            got, more = run(params, batch, steps)
        for name in want:
            check_equal(got[name], want[name])
        for name in sums:
            np.testing.assert_allclose(more[name], sums[name], rtol=1e-5, atol=1e-6)


def check_equal(got, want):
    """Two trees, to a millionth of the norm of the second, or of 1."""
    apart = jax.tree.map(lambda a, b: np.float64(a) - b, got, want)
    norm = np.sqrt(sum(np.vdot(x, x) for x in jax.tree.leaves(want)))
    assert norm > 1e-3
    error = np.sqrt(sum(np.vdot(x, x) for x in jax.tree.leaves(apart)))
    assert error < 1e-6 * max(norm, 1)


@pytest.fixture
def same_noise(monkeypatch):
    """The noise of R3F is the same in every row."""
    ones = lambda key, shape, dtype: jnp.ones(shape, dtype)  # noqa: E731
    monkeypatch.setitem(token_noise._DRAWN, "uniform", ones)


@pytest.mark.usefixtures("one_device", "same_noise")
@pytest.mark.full  # compiling takes long
@pytest.mark.parametrize("name", COMPARED)
def test_an_objective(name):
    task, batch = OBJECTIVES[name]()
    compare(task, rows_of(batch), [4])


def unequal(batch, alone=False):
    """Eight examples of weights 0 and 1; targets of texts differ in length.

    Args:
      batch: of a learner.
      alone: all weights of 1 are in one microbatch, as where examples are compared.
    """
    batch = rows_of(batch)
    weights = np.float32([1, 0, 0, 0] * 2 if alone else [1, 1, 0, 0, 1, 0, 0, 1])
    if (targets := batch.get("target_weights")) is not None:
        batch["target_weights"] = targets * (
            np.arange(targets.shape[1]) < 1 + 9 * weights[:, None]
        )
    return {**batch, "weights": weights}


@pytest.mark.full  # their sums are those of the tests of each learner
@pytest.mark.usefixtures("one_device", "same_noise")
@pytest.mark.parametrize("name", NAMES)
def test_a_learner(name):
    make, batch = case(name)
    batch = unequal(batch, alone=name == "retrieval/sequence")
    compare(make(NOISE), batch, [4])


@pytest.mark.full
@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("name", COMPARED)
def test_any_number_of_microbatches_on_eight_devices(name):
    task, batch = OBJECTIVES[name]()
    batch = jax.tree.map(lambda x: np.concatenate([x, x, x, x]), rows_of(batch))
    compare(task, batch, [1, 2, 4], make_mesh(MeshConfig(data=8)))
