"""Models of Hugging Face by the command line, there and back."""

import json

import pytest
from hf_models import CONFIGS, PAIRS, REFORMER, folder_of, params_of
from random_params import assert_equal
from safetensors.numpy import load_file, save_file

from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.models.etc.config import EtcConfig


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a Reformer of Hugging Face, to work in."""
    monkeypatch.chdir(tmp_path)
    folder_of("hf", REFORMER)
    return tmp_path


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_and_config_come_back_as_they_were(name, tmp_path):
    config, params = CONFIGS[name], params_of(CONFIGS[name])
    hugging_face.save(tmp_path / "model", params, config)
    back = hugging_face.read(tmp_path / "model")
    assert back.config == config
    assert not back.report.missing and not back.report.unused
    assert_equal(back.params, params)
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert values["model_type"] == name.split()[0]
    [architecture] = values["architectures"]
    assert architecture.lower().startswith(name.split()[0].replace("_", ""))
    if name in PAIRS:
        assert architecture.endswith("ForConditionalGeneration")


@pytest.mark.parametrize("name", ["reformer", "t5 v1.1"])
def test_there_and_back_no_bit_is_lost(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = CONFIGS[name]
    folder_of("hf", config)
    assert convert.main(["--hf=hf", "--out=ours"]) == 0
    assert native.read_config("ours") == config
    assert convert.main(["--to_hf=ours", "--out=back"]) == 0
    told = capsys.readouterr().out
    assert f"arrays of {type(config).__name__}" in told
    assert told.endswith("\nwrote back\n")
    for file in ("model.safetensors", "config.json"):
        before, after = ((tmp_path / x / file).read_bytes() for x in ("hf", "back"))
        assert before == after
    assert sorted(x.name for x in tmp_path.iterdir()) == ["back", "hf", "ours"]


def test_what_cannot_be_read_is_named(here, capsys):
    for argv, message in (
        (["--hf=nothing", "--out=x"], "no config.json in nothing"),
        (["--to_hf=ours", "--out=hf"], "no run"),
        (["--hf=hf", "--out=taken"], "taken is there and no saved model"),
    ):
        (here / "taken").mkdir(exist_ok=True)
        (here / "taken" / "thesis.txt").write_text("years of work")
        assert convert.main(argv) != 0, message
        assert capsys.readouterr().err
    values = json.loads((here / "hf" / "config.json").read_text())
    (here / "hf" / "config.json").write_text(json.dumps(values | {"model_type": "t"}))
    with pytest.raises(
        ValueError, match="model_type is 't'; what can be read is bart, bert"
    ):
        hugging_face.read("hf")


def test_missing_weights_are_named(here):
    file = here / "hf" / "model.safetensors"
    weights = load_file(file)
    for name in ("lm_head.bias", "lm_head.decoder.bias"):
        del weights[name]
    save_file(weights, file)
    with pytest.raises(ValueError, match=r"lm_head.bias \(for logits/bias\): missing"):
        hugging_face.read("hf")


def test_a_model_without_a_counterpart_is_refused(here):
    with pytest.raises(ValueError, match="EtcConfig has no counterpart in transformer"):
        hugging_face.save("x", {}, EtcConfig())
    with pytest.raises(ValueError, match="hf is there and not empty"):
        hugging_face.save("hf", {}, REFORMER)
    assert not (here / "x").exists()
