"""BART, LED, T5 and LongT5 to transformers' files and back."""

import dataclasses
import json

import numpy as np
import pytest
from hf_models import PAIRS, params_of
from random_params import assert_equal

from etc_jax.conversion import exchange, hugging_face
from etc_jax.conversion.engine import ConversionError
from etc_jax.conversion.formats.safetensors_io import write
from etc_jax.models.encoder_decoder import (
    hf_config as encoder_decoder_config,
    weights as conversion,
)
from etc_jax.models.t5 import weights as t5


def test_a_layer_of_a_run_goes_to_its_place():
    config = PAIRS["led"]
    params = params_of(config)
    exported = conversion.export_hf(params, config)
    run = params["encoder"]["stack"]["layers"]["period"]["layer_1"]
    name = "led.encoder.layers.3.self_attn.longformer_self_attn.key_global.weight"
    want = run["attention"]["key_global"]["kernel"][1].reshape(12, 12).T
    np.testing.assert_array_equal(exported[name], want)


def written(folder, weights, values):
    folder.mkdir()
    write(folder / "model.safetensors", weights, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize("name", ["bart", "led"])
def test_a_body_alone_has_no_bias_of_logits(name, tmp_path):
    config = PAIRS[name]
    params = params_of(config)
    weights = conversion.export_hf(params, config)
    del weights["final_logits_bias"]
    body = {key.partition(".")[2]: x for key, x in weights.items()}
    values = conversion.values_to_hf(params, config) | {"architectures": ["BartModel"]}
    back = hugging_face.read(written(tmp_path / "model", body, values))
    assert back.report.missing == ("logits_bias",)
    params["logits_bias"] = np.zeros_like(params["logits_bias"])
    assert_equal(back.params, params)


@pytest.mark.parametrize(
    "name, prefix",
    [("bart", "model."), ("led", "led."), ("t5", ""), ("t5 v1.1", ""), ("longt5", "")],
)
def test_the_token_table_is_read_by_any_of_its_names(name, prefix):
    config = PAIRS[name]
    params = params_of(config)
    weights = conversion.export_hf(params, config)
    table = weights.pop(f"{prefix}shared.weight")
    sides = [f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    names = [f"{prefix}shared.weight", *sides]
    if config.tied_logits:
        names.append("lm_head.weight")
    for there in (names, names[1:], *([one] for one in names)):
        found = weights | dict.fromkeys(there, table)
        assert exchange.of(config).refined(config, found) == config
        assert_equal(conversion.import_hf(found, config, params)[0], params)
    differs = weights | dict.fromkeys(names[1:], table) | {sides[1]: table + 1}
    with pytest.raises(ValueError, match=f"{sides[1]} differs from {sides[0]}, but"):
        conversion.import_hf(differs, config, params)
    with pytest.raises(ConversionError, match=rf"{names[0]} \(for token_embedder"):
        conversion.import_hf(weights, config, params)


def test_a_matrix_of_logits_is_one_if_it_is_there_and_differs():
    config = PAIRS["t5"]
    weights = conversion.export_hf(params_of(config), config)
    assert t5.refined(config, weights).tied_logits
    weights["lm_head.weight"] = weights["shared.weight"]
    assert t5.refined(config, weights).tied_logits
    weights["lm_head.weight"] = weights["shared.weight"] + 1
    refined = t5.refined(config, weights)
    assert refined == dataclasses.replace(config, tied_logits=False)
    params, _ = conversion.read_hf({}, weights, refined)
    np.testing.assert_array_equal(
        params["logits"]["kernel"], weights["lm_head.weight"].T
    )


@pytest.mark.parametrize(
    "values, scaled",
    [
        ({}, True),
        ({"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": False}, False),
        # As transformers 5 writes it.
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, False),
    ],
)
def test_what_the_file_says_of_tying_is_the_scale_of_the_logits(values, scaled):
    config = encoder_decoder_config.config_from_hf({"model_type": "t5", **values})
    assert config.scaled_logits is scaled
    assert config.num_decoder_layers == config.num_layers == 6


def test_missing_and_extra_tensors_are_listed():
    config = PAIRS["longt5"]
    params = params_of(config)
    weights = conversion.export_hf(params, config)
    del weights["decoder.final_layer_norm.weight"]
    weights["decoder.block.2.layer.1.EncDecAttention.q.weight"] = np.ones((15, 12))
    weights["more"] = np.ones(3, np.float32)
    old = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    weights[old] = np.ones((32, 3), np.float32)
    with pytest.raises(ConversionError) as error:
        conversion.import_hf(weights, config, params)
    for said in (
        "decoder.final_layer_norm.weight (for decoder/final_norm/scale): missing",
        "beyond them are decoder.block.2.layer.1.EncDecAttention.q.weight",
        "more: unused",
    ):
        assert said in str(error.value)
    assert old not in str(error.value)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("bart", {"vocab_size": 20}, "vocab_size is 20, but the weights have 19"),
        ("bart", {"encoder_layers": 3}, "encoder_layers is 3, but the weights have 4"),
        ("bart", {"max_position_embeddings": 40}, "of the encoder is 40, .* have 48"),
        ("t5", {"num_decoder_layers": 3}, "num_decoder_layers is 3, but .* have 2"),
    ],
)
def test_another_size_than_the_weights_have_is_named(name, change, message, tmp_path):
    config = PAIRS[name]
    params = params_of(config)
    values = conversion.values_to_hf(params, config) | change
    weights = conversion.export_hf(params, config)
    with pytest.raises(ValueError, match=message):
        hugging_face.read(written(tmp_path / "model", weights, values))


def test_targets_end_with_the_first_of_several_ends():
    values = encoder_decoder_config.config_to_hf(PAIRS["bart"])
    values |= {"eos_token_id": [4, 2], "forced_eos_token_id": [2]}
    config = encoder_decoder_config.config_from_hf(values)
    assert (config.eos_id, config.forced_eos_id) == (4, 2)


@pytest.mark.parametrize(
    "name, change, fields",
    [
        ("bart", {"encoder_layerdrop": 0.1, "decoder_layerdrop": 0.2}, {}),
        ("led", {"init_std": 0.0}, {"initializer_range": 0.0}),
        ("t5", {"initializer_factor": 1000}, {"initializer_range": 1000}),
    ],
)
def test_what_only_training_uses_does_not_stop_a_reading(name, change, fields):
    values = encoder_decoder_config.config_to_hf(PAIRS[name]) | change
    config = encoder_decoder_config.config_from_hf(values)
    assert config == dataclasses.replace(PAIRS[name], **fields)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("bart", {"model_type": "pegasus"}, "model_type is 'pegasus'; expected one of"),
        ("bart", {"activation_function": "mish"}, "is 'mish'; expected one of"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings is False; only"),
        ("bart", {"normalize_before": True}, "normalize_before is True; only False"),
        (
            "bart",
            {"architectures": ["BartForQuestionAnswering"]},
            "architectures is .* ends with one of ForConditionalGeneration",
        ),
        ("led", {"attention_window": [4, 6]}, "2 entries for 4 layers"),
        ("led", {"attention_window": 7}, "expected even numbers"),
        (
            "t5",
            {"feed_forward_proj": "gated-mish"},
            "feed_forward_proj is 'gated-mish'",
        ),
        ("t5", {"eos_token_id": []}, "eos_token_id is ..; expected a whole"),
        (
            "longt5",
            {"encoder_attention_type": "all"},
            "is 'all'; expected one of local",
        ),
    ],
)
def test_configs_without_a_counterpart_are_refused(name, change, message):
    values = encoder_decoder_config.config_to_hf(PAIRS[name]) | change
    with pytest.raises(ValueError, match=message):
        encoder_decoder_config.config_from_hf(values)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("bart", {"pre_norm": True}, "pre_norm is True, but of transformers' bart"),
        (
            "led",
            {"scale_embedding": True},
            "scale_embedding is True, but transformers'",
        ),
        ("t5", {"activation": "linear"}, "activation is 'linear' in blocks that are"),
    ],
)
def test_what_transformers_does_not_have_is_not_written(name, change, message):
    config = dataclasses.replace(PAIRS[name], **change)
    with pytest.raises(ValueError, match=message):
        encoder_decoder_config.config_to_hf(config)
