"""BART made a LED, a LED made longer, T5 made a LongT5."""

import dataclasses

import jax
import numpy as np
import pytest
from hf_models import PAIRS, folder_of, params_of

from etc_jax.base import registry
from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.extension import Extension, extend
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config


def logits(config, params, *args):
    def run(params):
        return EncoderDecoder(config).apply({"params": params}, *args)

    with jax.default_matmul_precision("highest"):
        return jax.jit(run)(params)


def fields_of(config):
    names = (field.name for field in dataclasses.fields(config))
    return {name: getattr(config, name) for name in names}


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(3, 19, shape).astype(np.int32)


def test_a_bart_becomes_a_led_that_computes_the_same_on_short_inputs():
    config = PAIRS["bart"]
    params = params_of(config)
    made = extend(params, config, Extension("led", max_length=150, window=40))
    want = {**fields_of(config), "max_length": 150, "max_target_length": 48}
    assert made.config == LedConfig(**want, attention_window=(40,))
    assert made.difference < 1e-4 and not made.left_behind
    # Position p has the row of p % 48, and none comes before the first.
    old = params["encoder"]["position_embedder"]["embedding"][2:]
    new = made.params["encoder"]["position_embedder"]["embedding"]
    np.testing.assert_array_equal(new, old[np.arange(150) % 48])
    attention = made.params["encoder"]["stack"]["layers"]["period"]["layer_0"]
    for kind in ("query", "key", "value"):
        parts = [attention["attention"][f"{kind}{end}"] for end in ("", "_global")]
        jax.tree.map(np.testing.assert_array_equal, *parts)
    x, y, first = tokens(2, 20), tokens(2, 6, seed=1), np.zeros((2, 1), np.int32)
    got = logits(made.config, made.params, x, y, None, None, first)
    np.testing.assert_allclose(got, logits(config, params, x, y), atol=1e-4)


@pytest.mark.full
def test_a_bart_becomes_a_bart_ls_that_is_the_same_but_for_its_averages():
    config = dataclasses.replace(PAIRS["bart"], num_layers=3)
    params = params_of(config)
    made = extend(params, config, Extension("bart_ls", max_length=150, block_size=40))
    want = {**fields_of(config), "max_length": 150, "max_target_length": 48}
    assert made.config == BartLsConfig(**want, block_size=40, pooling_layers=2)
    assert made.difference < 1e-4 and not made.left_behind
    old = params["encoder"]["position_embedder"]["embedding"]
    new = made.params["encoder"]["position_embedder"]["embedding"]
    # The rows of padding, then those of position p % 48.
    np.testing.assert_array_equal(new[:2], old[:2])
    np.testing.assert_array_equal(new[2:], old[2:][np.arange(150) % 48])
    layers = params["encoder"]["stack"]["layers"]["period"]["layer_0"]
    top = made.params["encoder"]["top_stack"]["layers"]["period"]["layer_0"]
    kernel = top["attention"]["pool"]["query"]["kernel"]
    np.testing.assert_array_equal(
        top["attention"]["blocks"]["query"]["kernel"],
        layers["attention"]["query"]["kernel"][1:],
    )
    # Xavier's bound with a gain of 1 / sqrt(2), and biases of 0.
    most = (6 / (2 * config.embed_dim) / 2) ** 0.5
    assert 0.9 * most < np.abs(kernel).max() <= most
    assert not top["attention"]["pool"]["query"]["bias"].any()
    assert not top["attention"]["pool"]["out"]["bias"].any()


@pytest.mark.parametrize("more", [{"overlap": True}, {"num_globals": 8}])
def test_a_bart_becomes_a_bart_ls_without_averages(more):
    config = PAIRS["bart"]
    blocks = {"block_size": 40, "pooling_layers": 0, **more}
    made = extend(
        params_of(config), config, Extension("bart_ls", max_length=150, **blocks)
    )
    assert dataclasses.replace(made.config, **blocks) == made.config
    assert made.difference < 1e-4
    assert "top_stack" not in made.params["encoder"]


def test_a_led_becomes_longer_and_its_global_projections_copies_again():
    config = PAIRS["led"]
    params = params_of(config)
    made = extend(params, config, Extension("led", max_length=96, copy_global=True))
    assert made.config == dataclasses.replace(config, max_length=96)
    exported, back = (
        registry.lookup("hugging_face", "led").weights_to(*pair)
        for pair in ((params, config), (made.params, made.config))
    )
    for name, array in back.items():
        if name == "led.encoder.embed_positions.weight":
            array, want = array[48:], exported[name]
        else:
            want = exported[name.replace("_global.", ".")]
        np.testing.assert_array_equal(array, want)


@pytest.mark.parametrize("name", ["t5", "t5 v1.1"])
@pytest.mark.full(but=["t5 v1.1"])
def test_a_t5_becomes_a_long_t5_that_computes_the_same_on_short_inputs(name):
    config = PAIRS[name]
    params = params_of(config)
    asked = Extension("long_t5", max_length=150, window=30, block_size=12)
    made = extend(params, config, asked)
    want = {**fields_of(config), "max_length": 150}
    assert made.config == LongT5Config(**want, radius=15, block_size=12)
    assert made.difference < 1e-4
    encoder = made.params["encoder"]
    jax.tree.map(
        np.testing.assert_array_equal,
        encoder["block_relpos_bias"],
        params["encoder"]["relpos_bias"],
    )
    x, y = tokens(2, 11), tokens(2, 6, seed=1)
    got, want = logits(made.config, made.params, x, y), logits(config, params, x, y)
    np.testing.assert_allclose(got, want, atol=2e-4)


@pytest.mark.parametrize(
    "name, asked, message",
    [
        ("t5", Extension("led"), "the source is of the family t5; .* a led is Bart, L"),
        (
            "longt5",
            Extension("long_t5"),
            "family long_t5; what becomes a long_t5 is T5",
        ),
        ("bart", Extension("led", max_length=40), "max_length is 40, but the source"),
        ("bart", Extension("led", block_size=8), "block_size is 8, which is not asked"),
        ("bart", Extension("led", window=7), "attention_window .* expected even"),
        ("bart", Extension("led", pooling_layers=0), "pooling_layers is 0, which is"),
        (
            "bart",
            Extension("bart_ls", max_length=150, block_size=40, pooling_layers=9),
            "pooling_layers is 9; expected 0 to num_layers",
        ),
    ],
)
def test_what_does_not_fit_is_refused(name, asked, message):
    params = params_of(PAIRS[name])
    with pytest.raises(ValueError, match=message):
        extend(params, PAIRS[name], asked)


def test_the_command_writes_a_folder_of_hugging_face(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = dataclasses.replace(PAIRS["bart"], scale_embedding=False)
    folder_of("bart", config)
    argv = ["extend", "--from=bart", "--to=led", "--max_length=96", "--out=led"]
    assert convert.main([*argv, "--window=16"]) == 0
    assert "48 positions became 96" in capsys.readouterr().out
    made = hugging_face.read("led").config
    assert (made.max_length, made.attention_window) == (96, (16,))
