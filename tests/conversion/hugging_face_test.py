"""Models of Hugging Face by the command line, there and back."""

import json

import numpy as np
import pytest
from reformer_hf_test import CONFIG, random_params
from safetensors.numpy import load_file, save_file

from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.models.etc.config import EtcConfig


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a Reformer of Hugging Face, to work in."""
    monkeypatch.chdir(tmp_path)
    hugging_face.save("hf", random_params(CONFIG), CONFIG)
    return tmp_path


def test_there_and_back_no_bit_is_lost(here, capsys):
    assert convert.main(["--hf=hf", "--out=ours"]) == 0
    assert native.read_config("ours") == CONFIG
    assert convert.main(["--to_hf=ours", "--out=back"]) == 0
    told = capsys.readouterr().out
    assert "arrays of ReformerConfig" in told and told.endswith("\nwrote back\n")
    before, after = (load_file(here / x / "model.safetensors") for x in ("hf", "back"))
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])
    configs = [(here / x / "config.json").read_text() for x in ("hf", "back")]
    assert json.loads(configs[0]) == json.loads(configs[1])
    assert sorted(x.name for x in here.iterdir()) == ["back", "hf", "ours"]


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
        hugging_face.save("hf", {}, CONFIG)
    assert not (here / "x").exists()
