"""Longformer on bytes through the training loop, from one stage to the next."""

import jax
import numpy as np
import pytest
from config_changes import changed
from mean_loss import loss_of
from random_params import random_params
from training_runs import lines

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import generate
from etc_jax.configs.longformer import longformer_charlm
from etc_jax.conversion.formats import native
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.loop import Options
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.training.run import train_and_evaluate

# Smaller than any rounding of a float32: what was loaded is seen at the end.
STANDSTILL = 1e-35


def stage(number, file, **changes):
    """A stage of the config, narrow and short; windows and lengths grow as there."""
    values = longformer_charlm.get_config(f"stage{number}")
    growth = 2 ** (number - 1)
    values.model.update(
        embed_dim=16,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=64,
        attention_window=(8 * growth,),
        attention_dilation=((2, 1),),
        attention="dense",  # compiles faster
        dropout_rate=0.0,
        initializer_range=0.2,
        dtype="float32",
    )
    values.data.update(paths=(file,), input_length=16 * growth, scored_length=8)
    values.schedule.warmup_steps = 0
    values.optimizer.learning_rate = 1e-2
    values.train.update(
        num_steps=20, batch_size=8, accumulation_steps=1, eval_every_steps=20
    )
    values.checkpoint.every_steps = 20
    return changed(values, changes)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of which the next byte follows from the one before."""
    file = tmp_path_factory.mktemp("text") / "abc.txt"
    file.write_bytes(b"abcdefghijklmnop" * 200)
    return str(file)


@pytest.fixture(scope="module")
def first(text, tmp_path_factory):
    """(folder, parameters) of a finished first stage."""
    folder = tmp_path_factory.mktemp("stage1")
    result = train_and_evaluate(stage(1, text), folder)
    return folder, jax.device_get(result.state.params)


def test_a_text_is_learnt(first):
    line = lines(first[0], "eval")[-1]
    assert line["bits"] == pytest.approx(line["loss"] / np.log(2), rel=1e-5)
    # Sixteen symbols take 4 bits, one that is known takes none.
    assert line["bits"] < 3


@pytest.mark.full
def test_a_stage_begins_with_the_parameters_of_the_one_before(first, text, tmp_path):
    folder, params = first
    config = stage(
        2,
        text,
        checkpoint__init_from=str(folder),
        optimizer__learning_rate=STANDSTILL,
        train__num_steps=1,
        train__eval_every_steps=1,
    )
    assert config.checkpoint.init_from_only == ("encoder", "logits")
    result = train_and_evaluate(config, tmp_path)
    got = jax.device_get(result.state.params)
    assert jax.tree.structure(got) == jax.tree.structure(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-30), got, params)
    # Of windows and sequences twice as long, without another step.
    assert lines(tmp_path, "eval")[-1]["bits"] < 3.5


@pytest.mark.full
def test_a_run_is_continued_on_the_command_line(first, tmp_path, capsysbinary):
    config = stage(1, "x").model
    native.save(tmp_path / "model", first[1], config, {})
    tokens = np.array([[0, *b"abc"]], np.int32)
    decoder = decoding.decoder_of("longformer", config)
    want = generation.write(decoder, first[1], tokens, Options(40)).tokens[0, 0]
    want = bytes(np.asarray(want).tolist())
    for folder in (first[0], tmp_path / "model"):
        argv = [f"--model={folder}", "--prompt=abc", "--num_tokens=40"]
        assert generate.main([*argv, "--temperature=0"]) == 0
        assert capsysbinary.readouterr().out == want


def make_job(config):
    return registry.lookup("objective", "causal_lm")(config, None)


def test_dropout_needs_and_follows_its_key(text):
    config = stage(1, text, model__dropout_rate=0.3)
    module = registry.lookup("causal_lm_model", "longformer")
    task, job = CausalLm(config.model, module), make_job(config)
    params = random_params(task.init)
    batch = job.train_batch(0, np.arange(2))

    @jax.jit
    def loss(rng):
        return loss_of(task)(params, batch, rng, False)[0]

    one, again, other = (loss(jax.random.key(i)) for i in (0, 0, 1))
    assert one == again != other


def test_a_family_without_a_language_model_is_refused(text):
    values = config_lib.default_config("bert")
    values.objective.name = "causal_lm"
    values.data.update(source="bytes", paths=(text,), vocab_size=256)
    with pytest.raises(ValueError, match="does not train .* no causal lm model named"):
        make_job(config_lib.from_config_dict(values))
