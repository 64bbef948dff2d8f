"""LED in allenai's own layout: windows of one side, two rows before position 0."""

import json

import pytest
from encoder_decoder_layouts import LED, as_allenai, values_of_allenai
from random_params import assert_equal, drawn

from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import ConversionError
from etc_jax.conversion.formats.safetensors_io import write
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.hf_config import config_to_hf
from etc_jax.models.led import allenai as led_allenai


@pytest.fixture
def params():
    return drawn(encoder_decoder.shapes(LED))


def folder_of(folder, params, **changes):
    folder.mkdir()
    write(folder / "model.safetensors", as_allenai(params, LED), {"format": "pt"})
    values = {**values_of_allenai(LED), **changes}
    values = {key: value for key, value in values.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def test_the_model_is_the_one_of_transformers_layout(tmp_path, params):
    found = hugging_face.read(folder_of(tmp_path / "allenai", params))
    assert found.config == LED
    assert not found.report.missing
    assert_equal(found.params, params)
    # What is written is the layout of transformers.
    hugging_face.save(tmp_path / "back", found.params, found.config)
    values = json.loads((tmp_path / "back" / "config.json").read_text())
    assert values["attention_window"] == [4, 8, 4, 8]
    assert values["architectures"] == ["LEDForConditionalGeneration"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"attention_mode": "n2"}, "attention_mode is 'n2'; expected one of tvm"),
        ({"attention_mode": ...}, "attention_mode is not there; expected one of tvm"),
        ({"attention_window": ...}, "attention_window is not there; expected a list"),
        ({"attention_window": 2}, "attention_window is 2; expected a list"),
        ({"attention_window": [2, 4]}, "attention_window has 2 entries for 4 layers"),
        ({"attention_dilation": [1, 1, 2, 2]}, "attention_dilation is .* only 1 in"),
        ({"autoregressive": True}, "autoregressive is True; only False"),
        (
            {"attention_probs_dropout_prob": 1},
            "attention_probs_dropout_prob is 1; expected a number in",
        ),
        (
            {"max_encoder_position_embeddings": 50},
            "positions of the encoder is 50, but the weights have 48",
        ),
        ({"scale_embedding": True}, "scale_embedding is True; only False"),
    ],
)
def test_what_has_no_counterpart_is_named(tmp_path, params, change, message):
    with pytest.raises(ValueError, match=message):
        hugging_face.read(folder_of(tmp_path / "allenai", params, **change))


def test_the_encoder_has_a_rate_of_attention_dropout_of_its_own(caplog):
    values = values_of_allenai(LED) | {"attention_probs_dropout_prob": 0.3}
    config = led_allenai.config_from(values)
    sides = config.encoder_side, config.decoder_side
    assert [side.attention_dropout_rate for side in sides] == [0.3, 0.0]
    # transformers has no such key.
    assert config_to_hf(config) == config_to_hf(LED)
    assert "0.3 in the encoder and 0.0 in the decoder" in caplog.text


def test_missing_and_extra_weights_are_listed(params):
    weights = as_allenai(params, LED)
    output = "model.encoder.layers.1.self_attn.output.bias"
    weights["model.encoder.layers.1.self_attn.out_proj.bias"] = weights.pop(output)
    with pytest.raises(ConversionError) as error:
        led_allenai.read({}, weights, LED)
    unused = "model.encoder.layers.1.self_attn.out_proj.bias: unused"
    assert unused in str(error.value)
    assert f"the checkpoint lacks {output}" in str(error.value)
