"""A family of one's own, in a folder outside of the package: a ModernBERT."""

import dataclasses
import functools
import importlib
import json
import os
import sys

import family_cases
import jax
import numpy as np
import programs
import pytest
import tiny_texts
from golden_data import require_shared
from pattern_cases import (
    PatternCase,
    check_a_split_sequence,
    check_full_length,
    check_pairs,
    check_who_sees_whom,
)
from random_params import assert_equal, random_params
from repository import ROOT
from safetensors.numpy import load_file
from xla_flags import xla_flags

import etc_jax
from etc_jax import sharding
from etc_jax.base import registry
from etc_jax.cli import extend
from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import ConversionError, flatten
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.loading.model import LoadedModel
from etc_jax.models import useful_flops
from etc_jax.models.encoder.heads import EncoderForLabels

NAME, LENGTH = "modern_bert", 48
# After the first layer, two runs of three.
SIZES = {
    "vocab_size": len(tiny_texts.PIECES),
    "embed_dim": 16,
    "num_layers": 7,
    "num_heads": 2,
    "mlp_dim": 24,
    "max_length": LENGTH,
    "local_window": 4,
}
GOLDEN = "fixtures_modern/modernbert_mlm"


@pytest.fixture(scope="module")
def family():
    forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples")
        registry.import_plugin(NAME)
        yield importlib.import_module(NAME).FAMILY
    forget()


def forget():
    """Leaves nothing of the family to tests of all families."""
    for table in registry._TABLES.values():
        for name in (NAME, "modernbert"):
            table.pop(name, None)
    for module in [m for m in sys.modules if m.partition(".")[0] == NAME]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def model(family):
    """As `load` makes one."""
    config = family.config(**SIZES)
    params = random_params(family.masked_lm(config).init, np.ones((1, 4), np.int32))
    tokenizer = tiny_texts.tiny("bert").tokenizer
    return LoadedModel(
        config=config, params=params, tokenizer=tokenizer, max_length=LENGTH
    )


@pytest.fixture(scope="module")
def logits(family, model):
    """(tokens, example ids, positions) `[b, LENGTH]` -> logits."""
    module = family.masked_lm(model.config)

    @jax.jit
    def apply(tokens, ids, positions):
        inputs = {"positions": positions}
        with jax.default_matmul_precision("highest"):
            return module.apply({"params": model.params}, tokens, ids, **inputs)

    return apply


def near(ids):
    place = np.arange(len(ids))
    return abs(place[None] - place[:, None]) <= 6


@pytest.mark.parametrize("kind", ["full", "local"])
def test_its_patterns_keep_what_patterns_promise(family, kind):
    rotary = importlib.import_module(f"{NAME}.rotary")
    pattern, sees = {
        "full": (rotary.RotaryFull(1e4), lambda ids: np.ones((len(ids),) * 2, bool)),
        "local": (rotary.RotaryLocal(6, 1e4), near),
    }[kind]
    # Pairs of features are turned.
    case = PatternCase(pattern, sees, options={"head_dim": 4})
    check_who_sees_whom(case)
    check_pairs(case)
    check_full_length(case)
    check_a_split_sequence(case)


CHECKS = {
    "gradients": family_cases.check_gradients,
    "padding": family_cases.check_padding,
    "alone": family_cases.check_alone,
    "refusals": family_cases.check_refusals,
    "layers": family_cases.check_layers,
    "bfloat16": family_cases.check_bfloat16,
    "mesh": family_cases.check_a_mesh,
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.full(but=["gradients", "padding", "alone", "refusals"])
def test_it_keeps_what_families_promise(family, check):
    sizes = {**SIZES, "vocab_size": 24, "num_layers": 4, "head_dim": 6}
    config = family.config(**sizes)
    # There are no biases of keys, so that every parameter moves something.
    case = family_cases.FamilyCase(*(NAME, config), without_gradient="(?!)", spread=0.2)
    CHECKS[check](case)


def test_only_differences_of_positions_count(logits):
    tokens = np.random.default_rng(0).integers(0, 9, (1, LENGTH))
    order = np.arange(LENGTH)[None]
    first = order < 20
    want = logits(tokens, 1 + (order >= 20), order)
    # Each of two packed examples counted for itself, and one of them alone.
    counted = logits(tokens, 1 + (order >= 20), np.where(first, order, order - 20))
    np.testing.assert_allclose(counted, want, atol=1e-4)
    alone = logits(np.roll(tokens, -20, 1), order < LENGTH - 20, order)
    np.testing.assert_allclose(alone[:, :-20], want[:, 20:], atol=1e-4)
    assert abs(logits(tokens, 1 + (order >= 20), 2 * order) - want).max() > 1e-2


def test_it_is_the_model_of_transformers(family):
    folder = require_shared(GOLDEN)
    read = hugging_face.read(folder)
    assert read.config.patterns[3].base == read.config.global_base == 160_000
    inputs, want = (dict(np.load(folder / f"{x}puts.npz")) for x in ("in", "out"))
    apply = jax.jit(family.masked_lm(read.config).apply)
    mask = inputs["attention_mask"]
    with jax.default_matmul_precision("highest"):
        got = apply({"params": read.params}, inputs["input_ids"], mask)
    real = mask > 0
    # Logits are up to 14.
    want = want["logits"][real]
    np.testing.assert_allclose(np.asarray(got)[real], want, rtol=1e-5, atol=1e-4)


def test_its_weights_come_back_byte_by_byte(family, tmp_path):
    folder = require_shared(GOLDEN)
    read = hugging_face.read(folder)
    hugging_face.save(tmp_path / "hf", read.params, read.config)
    got, want = (load_file(f / "model.safetensors") for f in (tmp_path / "hf", folder))
    assert {n: (a.dtype, a.tobytes()) for n, a in got.items()} == {
        n: (a.dtype, a.tobytes()) for n, a in want.items()
    }
    got, want = (
        json.loads((f / "config.json").read_text()) for f in (tmp_path / "hf", folder)
    )
    ids = {name for name in got if name.endswith("_token_id")}
    assert {n: want[n] for n in got.keys() - ids} == {
        n: got[n] for n in got.keys() - ids
    }


def test_another_head_is_not_one_of_transformers(family, model):
    params = {"encoder": model.params["encoder"], "label_out": {"bias": np.zeros(3)}}
    with pytest.raises(ConversionError, match="label_out/bias: no row"):
        family.exchange.weights_to(params, model.config)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"norm_bias": True}, "norm_bias is True; expected one of False"),
        ({"layer_types": ["full_attention"] * 4}, None),
        (
            {
                "layer_types": [
                    "full_attention",
                    "full_attention",
                    *2 * ["sliding_attention"],
                ]
            },
            r"layer_types has full_attention at \[0, 1\] of 4 layers",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_parameters is .*'yarn'.*; expected full_attention and",
        ),
        ({"classifier_activation": "relu"}, "classifier_activation is 'relu'"),
        ({"hidden_activation": "relu"}, "classifier_activation is 'gelu'"),
        (
            {"architectures": ["ModernBertForSequenceClassification"]},
            "expected null or a list of .*, each one of ModernBertForMaskedLM, ",
        ),
    ],
)
def test_what_has_no_counterpart_is_named(family, changes, message):
    values = {"num_hidden_layers": 4, **changes}
    if message is None:
        assert family.exchange.config_from(values).global_every == 1
        return
    with pytest.raises(ValueError, match=message):
        family.exchange.config_from(values)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"local_window": 5}, "local_window is 5; expected an even number"),
        ({"num_layers": 1}, "num_layers is 1; expected 2 or more"),
        ({"head_dim": 3}, "head_dim is 3; expected an even number"),
        ({"global_base": 0.0}, "global_base is 0.0; expected more than 0"),
    ],
)
def test_a_config_in_error_is_refused(family, model, changes, message):
    config = dataclasses.replace(model.config, **changes)
    with pytest.raises(ValueError, match=message):
        family.body(config).init(jax.random.key(0), np.ones((1, 4), np.int32))


def test_it_gives_vectors_of_longer_texts_once_it_is_extended(model, tmp_path):
    model.save_pretrained(tmp_path / "short")
    short = etc_jax.load(tmp_path / "short")
    assert_equal(short.params, model.params)
    argv = [f"--plugin={NAME}", f"--from={tmp_path / 'short'}", f"--to={NAME}"]
    argv += ["--max_length=96", f"--out={tmp_path / 'long'}"]
    assert extend.main(argv) == 0
    long = etc_jax.load(tmp_path / "long")
    assert (short.max_length, long.max_length) == (LENGTH, 96)
    # Of one length each, which a program is compiled for.
    texts = [" ".join(tiny_texts.WORDS[:1] * n) for n in (40, 80)]
    got = long.encode(texts)
    with pytest.warns(UserWarning, match="1 of 2 texts have more than the 48 tokens"):
        want = short.encode(texts)
    assert got.shape == (2, 16)
    np.testing.assert_allclose(got[0], want[0], atol=1e-5)
    # The short one read its beginning alone.
    assert abs(got[1] - want[1]).max() > 1e-3


def test_heads_of_all_families_stand_on_it(family, model):
    module = EncoderForLabels(model.config, num_labels=3)
    params = random_params(module.init, np.ones((1, 4), np.int32))
    tokens = np.random.default_rng(0).integers(0, 9, (2, 16))

    def loss(params):
        return jax.numpy.square(module.apply({"params": params}, tokens)).sum()

    gradients = jax.jit(jax.grad(loss))(params)
    for path, gradient in flatten(gradients).items():
        assert np.isfinite(gradient).all() and abs(np.asarray(gradient)).max() > 0, path
        # The first layer of the run has an axis of runs.
        sharding.axes_for(path, gradient.ndim)


def test_flops_are_those_of_its_matrices(family, model):
    n, c = 40, model.config
    kernels = {
        path: array.shape
        for path, array in flatten(model.params["encoder"]).items()
        if path.endswith("kernel")
    }
    assert len(kernels) == 7 + 3 * 7
    maps = 2 * n * sum(map(np.prod, kernels.values()))
    full, local = n * n, n * 5 - 2 * (1 + 2)
    pairs = 4 * c.num_heads * c.attention_head_dim * (3 * full + 4 * local)
    inputs = SequenceInputs(np.ones((1, n), np.int32))
    assert family.flops.body(c, inputs) == maps + pairs
    assert useful_flops.of_step(c, NAME, inputs) == 3 * (maps + pairs)


@pytest.mark.torch
@pytest.mark.parametrize("layers", [22, 3])
def test_a_live_model_of_transformers_says_the_same(family, tmp_path, layers):
    transformers = pytest.importorskip("transformers", reason="extra parity")
    import torch

    torch.manual_seed(0)
    peer = transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=40,
            num_hidden_layers=layers,
            num_attention_heads=4,
            local_attention=8,
            initializer_range=0.1,
            pad_token_id=0,
        )
    ).eval()
    peer.save_pretrained(tmp_path / "peer")
    read = hugging_face.read(tmp_path / "peer")
    tokens = np.random.default_rng(0).integers(0, 50, (2, 40))
    mask = np.ones_like(tokens)
    mask[1, 30:] = 0
    with torch.no_grad():
        want = peer(torch.tensor(tokens), torch.tensor(mask)).logits.numpy()
    apply = jax.jit(family.masked_lm(read.config).apply)
    with jax.default_matmul_precision("highest"):
        got = np.asarray(apply({"params": read.params}, tokens, mask))
    np.testing.assert_allclose(got[mask > 0], want[mask > 0], atol=1e-5, rtol=1e-5)
    hugging_face.save(tmp_path / "back", read.params, read.config)
    back = transformers.ModernBertForMaskedLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        again = back(torch.tensor(tokens), torch.tensor(mask)).logits.numpy()
    np.testing.assert_array_equal(again, want)


CONFIG = '''"""A config of the tests."""
from etc_jax import config as config_lib


def get_config():
    config = config_lib.default_config("modern_bert")
    config.model.update({sizes})
    config.objective.name = "masked_lm"
    config.data.update(source="bytes", vocab_size=260, input_length=48)
    config.data.paths = ("text",)
    config.optimizer.update(learning_rate=2e-2)
    config.schedule.warmup_steps = 0
    config.train.update(num_steps=8, batch_size=8, log_every_steps=1)
    config.mesh.update(data=2, fsdp=2, tensor=2)
    return config
'''


def run(folder, devices, *argv):
    """What a command with the examples on its path prints."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
    environ = {
        **os.environ,
        "PYTHONPATH": path,
        "XLA_FLAGS": xla_flags(devices=devices),
    }
    done = programs.run(*argv, cwd=folder, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_knows_it_as_a_target(tmp_path):
    # In a process that has not seen it before.
    argv = (f"--plugin={NAME}", f"--to={NAME}", "--from=nowhere", "--out=long")
    with pytest.raises(AssertionError, match="nowhere"):
        run(tmp_path, 1, "etc_jax.cli.extend", *argv)


@pytest.mark.full
def test_a_command_trains_it_on_a_mesh(tmp_path):
    (tmp_path / "text").write_bytes(bytes(range(97, 122)) * 400)
    sizes = {**SIZES, "vocab_size": 260}
    (tmp_path / "config.py").write_text(CONFIG.replace("{sizes}", repr(sizes)))
    argv = ("etc_jax.cli.train", f"--plugin={NAME}", "--config=config.py")
    run(tmp_path, 8, *argv, "--workdir=run")
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "loss" in row]
    losses = {row["step"]: row["loss"] for row in rows}
    assert losses[8] < losses[1]


@pytest.mark.full
def test_recipes_fine_tune_it(tmp_path):
    command = functools.partial(run, tmp_path, 1)
    words = {"good": tiny_texts.WORDS[0], "bad": tiny_texts.WORDS[1]}
    rows = [("text", "label"), *((8 * f"{w} ", label) for label, w in words.items())]
    (tmp_path / "texts.csv").write_text("\n".join(map(",".join, rows)))
    tiny_texts.tiny("bert").tokenizer.save(tmp_path / "tokenizer.json")
    command(
        *("etc_jax.cli.prepare", "--task=classification", "--workers=0"),
        *("--text_column=text", "--label_column=label", "--tokenizer=tokenizer.json"),
        *("--input_length=64", "--global_length=1", "--out=cache", "texts.csv"),
    )
    command(
        *("etc_jax.cli.train", f"--plugin={NAME}", "--workdir=run"),
        f"--config=classification:prepared=cache,{NAME},tiny",
        *("--config.train.num_steps=4", "--config.schedule.warmup_steps=0"),
        *("--config.train.eval_every_steps=4", "--config.checkpoint.every_steps=4"),
    )
    model = (f"--plugin={NAME}", "--model=run", "--out=scores", "texts.csv")
    command("etc_jax.cli.evaluate", *model)
    scores = json.loads((tmp_path / "scores/scores.json").read_text())
    assert scores["task"] == "classification" and "accuracy" in scores["metrics"]
