"""R3F of texts to be written, by loops in float64, and its options in configs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_seq2seq
from learning import random_params
from mean_loss import loss_of
from seq2seq_test import BATCH, CONFIG, log_probabilities, pairs

from etc_jax import config as config_lib
from etc_jax.config.kinds import section_of
from etc_jax.config.sections import R3fConfig
from etc_jax.layers import token_noise
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.sled.config import SledConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.seq2seq import Seq2Seq

WEIGHT, KEY = 0.3, jax.random.key(7)


def toy_task(noise=0.05, weight=WEIGHT, **model):
    config = dataclasses.replace(CONFIG, **{"dropout_rate": 0.0, **model})
    return Seq2Seq(config, toy_seq2seq.ToySeq2Seq, 0.1, r3f=R3fConfig(weight, noise))


@pytest.fixture(scope="module")
def toy_params():
    return jax.jit(toy_task().init)(KEY)


@functools.cache
def compiled(task):
    return jax.jit(jax.value_and_grad(loss_of(task), has_aux=True), static_argnums=3)


def trained(task, params, batch=BATCH):
    """(loss, metrics), gradients of a training step."""
    return compiled(task)(params, batch, KEY, False)


def metric_of(task, params):
    """(sum, weight) of the metric in a training step."""
    loss = jax.jit(loss_of(task), static_argnums=3)
    return loss(params, BATCH, KEY, False)[1]["r3f"]


def test_only_what_the_encoder_reads_has_noise(toy_params, monkeypatch):
    ones = lambda key, shape, dtype: jnp.ones(shape, dtype)  # noqa: E731
    monkeypatch.setitem(token_noise._DRAWN, "uniform", ones)
    total, count = metric_of(toy_task(), toy_params)
    want = 0.0
    for inputs, target in pairs():
        p, q = (
            np.exp(log_probabilities(toy_params, inputs, target, shift))
            for shift in (0.0, 0.05)
        )
        want += sum(np.sum(a * np.log(a / b)) for a, b in ((p, q), (q, p)))
    np.testing.assert_allclose(total, want, rtol=1e-4)
    assert count == sum(len(target) for _, target in pairs())


def test_without_noise_there_is_the_difference_of_dropout_alone(toy_params):
    assert metric_of(toy_task(noise=0.0), toy_params)[0] == 0
    dropped = toy_task(noise=0.0, dropout_rate=0.3)
    assert metric_of(dropped, toy_params)[0] > 0.01


def test_the_step_takes_the_passes_together(toy_params):
    (loss, sums), grads = trained(toy_task(), toy_params)
    (plain, other), without = trained(toy_task(weight=0.0), toy_params)
    total, count = sums["r3f"]
    np.testing.assert_allclose(loss, plain + WEIGHT * total / count, rtol=1e-6)
    assert sums["loss"] == other["loss"] and "r3f" not in other
    # Along what the term adds to the gradient, the two passes go apart.
    ahead = jax.tree.map(lambda p, a, b: p + a - b, toy_params, grads, without)
    (_, sums), _ = trained(toy_task(), ahead)
    assert sums["r3f"][0] > total


def test_pieces_of_logits_change_nothing(toy_params):
    tasks = toy_task(chunk_length=0), toy_task()
    whole, pieces = (jax.tree.leaves(trained(x, toy_params)) for x in tasks)
    for a, b in zip(pieces, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_batch_of_padding_has_no_loss_and_no_gradient(toy_params):
    nothing = {name: np.zeros_like(x) for name, x in BATCH.items()}
    (loss, sums), grads = trained(toy_task(), toy_params, nothing)
    assert loss == sums["r3f"][0] == 0
    assert not any(np.any(x) for x in jax.tree.leaves(grads))


SIZES = {"embed_dim": 8, "num_layers": 1, "num_heads": 2, "mlp_dim": 8}
SIZES |= {"vocab_size": 40, "dropout_rate": 0.0, "logits_chunk_length": 4}
SLED = SledConfig(window=4, prefix_length=2, windows_at_once=1)
MODELS = {
    # Windows are encoded in a scan, each with noise of its own.
    "sled": BartConfig(**SIZES, num_decoder_layers=1, sled=SLED),
    "reformer": ReformerConfig(
        **SIZES,
        max_length=16,
        axial_shape=None,
        axial_dims=None,
        pattern=("local",),
        local_chunk_length=4,
        causal=True,
    ),
}


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.full(but=["reformer"])
def test_scanned_and_reversible_models_have_noise(name):
    config = MODELS[name]
    section = section_of("text_to_text", "text_to_text", type(config))
    chosen = section("text_to_text", R3fConfig(WEIGHT, 0.01))
    learner = finetuning.find(config, chosen, "text_to_text")
    batch = {
        "input_tokens": np.int32([[5, 6, 3, 9, 0, 0, 0, 0], [7, 8, 9, 3, 4, 5, 6, 3]]),
        "input_example_ids": np.int32([[1] * 4 + [0] * 4, [1] * 8]),
        "target_tokens": np.int32([[11, 12, 3, 0, 0], [13, 14, 15, 16, 3]]),
        "target_weights": np.float32([[1, 1, 1, 0, 0], [1] * 5]),
        "weights": np.float32([1, 1]),
    }
    params = random_params(learner, scale=0.3)
    _, sums = jax.jit(loss_of(learner), static_argnums=3)(params, batch, KEY, False)
    assert 0 < sums["r3f"][0] < np.inf and sums["r3f"][1] == 8


# --- configs --------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["seq2seq", "wikihop"])
@pytest.mark.parametrize(
    "field, value, message",
    [
        ("weight", -0.1, "weight: is -0.1; expected 0 or more"),
        ("noise", -1e-5, "noise: is -1e-05; expected 0 or more"),
        ("kind", "gaussian", "kind: is 'gaussian' .*; expected one of uniform, no"),
    ],
)
def test_a_wrong_option_is_named(objective, field, value, message):
    values = config_lib.default_config()
    values.objective.name = objective
    values.objective.r3f[field] = value
    with pytest.raises(config_lib.ConfigError, match=f"objective.r3f.{message}"):
        config_lib.from_config_dict(values)


def test_noise_that_the_table_would_lose_is_refused():
    values = config_lib.default_config("bart", objective="seq2seq", source="pairs")
    values.objective.r3f.weight = 0.01
    values.train.param_dtype = "bfloat16"
    with pytest.raises(config_lib.ConfigError, match="noise: is 1e-05, which is lost"):
        config_lib.from_config_dict(values)


def test_an_objective_that_fine_tunes_nothing_has_no_such_option():
    values = config_lib.default_config()
    values.objective.r3f.weight = 0.01
    with pytest.raises(config_lib.ConfigError, match="r3f: .*does not use it"):
        config_lib.from_config_dict(values)
