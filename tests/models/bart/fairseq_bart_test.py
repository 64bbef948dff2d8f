"""BART of fairseq: its names, its settings, and what is refused."""

import argparse
import dataclasses
import json

import jax
import numpy as np
import pytest
from bombs import Bomb
from encoder_decoder_layouts import BART, as_fairseq, settings_of_fairseq
from random_params import assert_equal, drawn

from etc_jax.cli import convert
from etc_jax.conversion.engine import ConversionError
from etc_jax.conversion.formats import native
from etc_jax.conversion.renaming import Renamed
from etc_jax.models.bart import fairseq as fairseq_bart
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder

HEADS = {
    "classification_heads.mnli.dense.weight": np.ones((12, 12), np.float32),
    "classification_heads.mnli.out_proj.bias": np.ones(3, np.float32),
}
# mBART: other norms, and the tables scaled.
MBART = dataclasses.replace(
    BART, pre_norm=True, final_norm=True, scale_embedding=True, activation="gelu"
)
# Averages in the last layer of the encoder, which reads more than the decoder writes.
BART_LS = BartLsConfig(
    **{field.name: getattr(BART, field.name) for field in dataclasses.fields(BART)}
    | {"max_length": 40, "max_target_length": 24, "pooling_layers": 1}
)


def params_of(config):
    params = drawn(encoder_decoder.shapes(config))
    # fairseq has no bias of logits.
    return params | {"logits_bias": np.zeros_like(params["logits_bias"])}


def saved(path, weights, settings, key="args", **more):
    """A file as fairseq's trainer saves it."""
    torch = pytest.importorskip("torch")
    # float16 and float32 are both in use.
    tensors = {name: torch.from_numpy(np.array(x)) for name, x in weights.items()}
    content = {
        "model": tensors,
        key: settings,
        "optimizer_history": [{"num_updates": 5, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"epoch": 3, "val_loss": 1.5},
        **more,
    }
    torch.save(content, path)
    return path


@pytest.mark.torch
@pytest.mark.parametrize(
    "config",
    [BART, MBART, BART_LS, dataclasses.replace(BART_LS, pooling_layers=2)],
    ids=["bart", "mbart", "bart_ls", "averages everywhere"],
)
@pytest.mark.parametrize("key", ["args", "cfg", "a dict"])
def test_every_weight_and_setting_is_read(tmp_path, config, key):
    params, settings = params_of(config), settings_of_fairseq(config)
    if key == "cfg":
        settings = {"model": settings, "task": {"_name": "denoising"}}
    elif key == "a dict":
        settings, key = vars(settings), "args"
    path = saved(tmp_path / "model.pt", as_fairseq(params, config), settings, key)
    got, found, report, _ = fairseq_bart.read(path)
    assert found == config
    assert report.missing == ("logits_bias",) and not report.unused
    assert_equal(got, params)


@pytest.mark.torch
def test_the_command_reads_it_and_names_the_heads_that_it_leaves_out(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    params = params_of(BART)
    weights = as_fairseq(params, BART) | HEADS
    saved("model.pt", weights, settings_of_fairseq(BART))
    assert convert.main(["--fairseq=model.pt", "--out=ours"]) == 0
    got, config = native.load("ours")
    assert config == BART
    assert_equal(got, params)
    said = capsys.readouterr().out
    assert "2 of classification heads left out: classification_heads.mnli" in said
    report = json.loads((tmp_path / "ours" / "report.json").read_text())
    assert report["left_over"] == list(HEADS)


def test_the_token_table_is_read_by_any_of_its_names():
    params = params_of(BART)
    weights = as_fairseq(params, BART)
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    names.append("decoder.output_projection.weight")
    table = weights[names[0]]
    rest = {name: x for name, x in weights.items() if name not in names}
    for name in names:
        common, _ = fairseq_bart.renamed(rest | {name: table})
        assert_equal(fairseq_bart.import_weights(common, BART)[0], params)
    common, _ = fairseq_bart.renamed(rest)
    with pytest.raises(ValueError, match="no weight decoder.embed_tokens.weight of 1"):
        fairseq_bart.config_from(vars(settings_of_fairseq(BART)), common)


@pytest.mark.parametrize(
    "settings, want",
    [
        ({"task": "denoising"}, True),
        ({"mask": 0.3, "task": "my_own"}, True),
        ({"task": "translation_from_pretrained_bart"}, False),
        ({"task": "my_own"}, None),
        ({}, None),
    ],
)
def test_a_task_says_whether_it_masks(settings, want):
    assert fairseq_bart.masks(settings) is want


@pytest.mark.torch
def test_weights_of_half_precision_become_float32(tmp_path):
    params = params_of(BART)
    half = {n: x.astype(np.float16) for n, x in as_fairseq(params, BART).items()}
    path = saved(tmp_path / "model.pt", half, settings_of_fairseq(BART))
    got = fairseq_bart.read(path).params
    assert_equal(
        got, jax.tree.map(lambda x: x.astype(np.float16).astype(np.float32), params)
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"encoder_attention_heads": None, "activation_fn": None},
            "settings lack encoder_attention_heads, activation_fn, which the shapes",
        ),
        ({"encoder_attention_heads": 5}, "num_heads 5 does not divide embed_dim 12"),
        ({"decoder_attention_heads": "2"}, "attention_heads is '2'; expected a whole"),
        ({"activation_fn": "swish"}, "activation_fn is 'swish'; expected one of gelu"),
        (
            {"decoder_normalize_before": True},
            "encoder_normalize_before is False and decoder_normalize_before True",
        ),
    ],
)
def test_settings_that_are_missing_or_do_not_fit_are_named(tmp_path, change, message):
    settings = vars(settings_of_fairseq(BART)) | change
    settings = {key: x for key, x in settings.items() if x is not None}
    weights = as_fairseq(params_of(BART), BART)
    path = saved(tmp_path / "model.pt", weights, argparse.Namespace(**settings))
    with pytest.raises(ValueError, match=message) as error:
        fairseq_bart.read(path)
    assert str(path) in str(error.value)


@pytest.mark.torch
@pytest.mark.parametrize(
    "name, array, message",
    [
        ("encoder.embed_positions.weight", None, "there is no table encoder.embed_pos"),
        (
            "decoder.embed_positions.weight",
            np.zeros((40, 12), np.float32),
            "the encoder has 48 positions and the decoder 38",
        ),
        (
            "decoder.output_projection.weight",
            np.zeros((19, 12), np.float32),
            "decoder.output_projection.weight differs from decoder.embed_tokens.weight",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path, name, array, message):
    weights = as_fairseq(params_of(BART), BART) | {name: array}
    weights = {key: x for key, x in weights.items() if x is not None}
    path = saved(tmp_path / "model.pt", weights, settings_of_fairseq(BART))
    with pytest.raises(ValueError, match=message):
        fairseq_bart.read(path)


def test_a_number_of_layers_that_nobody_has_is_refused_at_once():
    weights = as_fairseq(params_of(BART), BART)
    weights["encoder.layers.999999998.fc1.bias"] = np.zeros(10, np.float32)
    weights["shared.weight"] = weights.pop("decoder.embed_tokens.weight")
    common = Renamed(weights, lambda name: name)
    settings = vars(settings_of_fairseq(BART))
    with pytest.raises(ValueError, match="999999999 layers of the encoder; expected"):
        fairseq_bart.config_from(settings, common)


@pytest.mark.torch
def test_missing_and_unknown_weights_are_listed(tmp_path):
    weights = as_fairseq(params_of(BART), BART)
    del weights["encoder.layers.3.fc1.bias"]
    weights["encoder.layers.0.pool_attn.k_proj.bias"] = np.zeros(12, np.float32)
    weights["decoder.layers.1.fc2.weight"] = np.zeros((12, 9), np.float32)
    path = saved(tmp_path / "model.pt", weights, settings_of_fairseq(BART))
    with pytest.raises(ConversionError) as error:
        fairseq_bart.read(path)
    for said in (
        "the checkpoint lacks encoder.layers.3.fc1.bias",
        "encoder.layers.0.pool_attn.k_proj.bias: unused; the model has no parameter",
        "decoder.layers.1.fc2.weight of shape (12, 9) gives (9, 12), expected (8, 12)",
    ):
        assert said in str(error.value)


@pytest.mark.torch
def test_other_objects_are_refused_and_not_run(tmp_path):
    weights = as_fairseq(params_of(BART), BART)
    settings = settings_of_fairseq(BART)
    settings.more = Bomb(tmp_path / "ran")
    path = saved(tmp_path / "model.pt", weights, settings)
    with pytest.raises(ValueError, match="other things than tensors .* 'args' and"):
        fairseq_bart.read(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.torch
@pytest.mark.parametrize(
    "content, message",
    [
        ({"state": {}}, "has no 'model'; expected a checkpoint of fairseq"),
        ({"model": {"a": 3}}, "'model' of .* holds int as 'a'; expected tensors"),
        ({"model": {3: 3}}, "'model' of .* holds int as 3; expected tensors"),
        ({"model": {}}, "settings lack encoder_attention_heads"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path, content, message):
    torch = pytest.importorskip("torch")
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=message):
        fairseq_bart.read(tmp_path / "model.pt")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="no file .*expected a checkpoint of fairseq"):
        fairseq_bart.read(tmp_path)
