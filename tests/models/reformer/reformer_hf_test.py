"""Reformer to transformers and back; and the same figures there."""

import dataclasses

import jax
import numpy as np
import pytest
from hf_models import REFORMER, REFORMERS, params_of

from etc_jax.conversion import hugging_face
from etc_jax.models.reformer import weights as conversion
from etc_jax.models.reformer.body import ReformerLm


def test_a_layer_of_a_repeat_goes_to_its_place():
    params = params_of(REFORMER)
    exported = conversion.export_hf(params, REFORMER)
    kernel = params["encoder"]["stack"]["layers"]["lsh_1"]["f"]["attention"]["out"]
    got = exported["reformer.encoder.layers.3.attention.output.dense.weight"]
    np.testing.assert_array_equal(got, kernel["kernel"][1].reshape(10, 12).T)


def test_the_bias_of_the_logits_may_be_there_twice_if_it_is_one():
    params = params_of(REFORMER)
    exported = conversion.weights_to_hf(params, REFORMER)
    bias = exported["lm_head.decoder.bias"]
    np.testing.assert_array_equal(bias, exported["lm_head.bias"])
    # transformers 5.24 leaves the first at zero, and reads the other one.
    for first in (bias, 0 * bias):
        exported["lm_head.bias"] = first
        back, _ = conversion.import_hf(exported, REFORMER, params)
        jax.tree.map(np.testing.assert_array_equal, back, params)
    del exported["lm_head.bias"]
    back, _ = conversion.import_hf(exported, REFORMER, params)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    exported["lm_head.bias"] = bias
    exported["lm_head.decoder.bias"] = exported["lm_head.bias"] + 1
    with pytest.raises(ValueError, match=r"lm_head.bias and lm_head.decoder.bias diff"):
        conversion.import_hf(exported, REFORMER, params)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "bert"}, "model_type is 'bert'; expected 'reformer'"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; expected one of"),
        (
            {"axial_pos_shape": [4, 3, 4]},
            "axial_pos_shape is .4, 3, 4.; expected a list of 2",
        ),
        ({"attn_layers": ["lsh", "full"]}, "attn_layers is .* each one of local, lsh"),
    ],
)
def test_configs_without_a_counterpart_are_refused(change, message):
    values = conversion.config_to_hf(REFORMER) | change
    with pytest.raises(ValueError, match=message):
        conversion.config_from_hf(values)


@pytest.mark.parametrize(
    "change, expected",
    [
        # google/reformer-enwik8, then what transformers takes where a file is silent.
        ({"local_attention_probs_dropout_prob": 0.2}, {"local": 0.2, "lsh": 0.0}),
        ({"lsh_attention_probs_dropout_prob": 0.05}, {"local": 0.0, "lsh": 0.05}),
        ({"hidden_dropout_prob": 0.5, "initializer_range": 0}, {"local": 0, "lsh": 0}),
    ],
)
def test_what_only_training_uses_is_read_and_written(change, expected):
    values = conversion.config_to_hf(REFORMER) | change
    config = conversion.config_from_hf(values)
    assert config.attention_dropout_rates == expected
    assert conversion.config_to_hf(config) == values


@pytest.mark.parametrize(
    "shape, most, limit",
    [
        ([5, 8], 48, ("axial_shape", 40)),
        ([5, 8], 16, ("max_length", 16)),
    ],
)
def test_an_input_is_as_long_as_positions_and_config_allow(shape, most, limit):
    change = {"axial_pos_shape": shape, "max_position_embeddings": most}
    config = conversion.config_from_hf(conversion.config_to_hf(REFORMER) | change)
    assert config.input_limit == limit
    field, longest = limit
    model, params = ReformerLm(config), conversion.shapes(config)

    def run(length):
        tokens = np.zeros((1, length), np.int32)
        return jax.eval_shape(lambda p: model.apply({"params": p}, tokens), params)

    assert run(longest).shape == (1, longest, REFORMER.vocab_size)
    message = f"{longest + 1} tokens, but {field} has positions for {longest}"
    with pytest.raises(ValueError, match=message):
        run(longest + 1)


def test_three_axes_of_positions_are_not_written_for_transformers():
    shape = {"axial_shape": (4, 3, 4), "axial_dims": (4, 5, 3)}
    with pytest.raises(ValueError, match="positions of two axes alone"):
        conversion.config_to_hf(dataclasses.replace(REFORMER, **shape))


def test_sinusoidal_positions_are_not_written_for_transformers():
    sines = {"positions": "sinusoidal", "axial_shape": None, "axial_dims": None}
    with pytest.raises(ValueError, match="model.positions is 'sinusoidal'; transform"):
        conversion.config_to_hf(dataclasses.replace(REFORMER, **sines))


@pytest.mark.torch
@pytest.mark.parametrize("length, padding", [(3, 0), (13, 0), (24, 5), (48, 0)])
@pytest.mark.parametrize("name", ["reformer", "reformer of two factors"])
def test_transformers_computes_the_same(name, length, padding, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = dataclasses.replace(REFORMERS[name], rounding="transformers", hash_seed=3)
    params = params_of(config)
    params["logits"]["bias"] *= 0  # transformers 5 keeps it and does not add it
    hugging_face.save(tmp_path, params, config)
    [name] = conversion.config_to_hf(config)["architectures"]
    theirs = getattr(transformers, name).from_pretrained(tmp_path).eval()
    rng = np.random.default_rng(1)
    tokens = rng.integers(3, 19, size=(2, length)).astype(np.int32)
    mask = np.ones_like(tokens)
    mask[1, length - padding :] = 0
    with torch.no_grad():
        want = theirs(
            torch.tensor(tokens).long(), attention_mask=torch.tensor(mask)
        ).logits.numpy()
    torch.manual_seed(config.hash_seed)
    half = sum(config.num_buckets) // 2
    rotations = torch.randn(2, config.head_dim, config.num_hashes, half).numpy()
    model = ReformerLm(config)
    with jax.default_matmul_precision("highest"):
        got = model.apply({"params": params}, tokens, mask, rotations)
    real = mask > 0
    np.testing.assert_allclose(np.asarray(got)[real], want[real], atol=1e-4, rtol=1e-4)
