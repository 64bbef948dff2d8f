"""The config of Longformer on bytes: stages that fit on each other, and variants."""

import dataclasses
import itertools

import every_config_test
import jax
import numpy as np
import pytest

from etc_jax import config as config_lib
from etc_jax.models.encoder.lm import EncoderForCausalLm

STAGES = tuple(f"stage{number}" for number in range(1, 6))
WINDOWS = ("", "fixed_window", "decreasing_window")


def load(*names, **changes):
    arg = ",".join(filter(None, names))
    return every_config_test.load("longformer_charlm", arg, **changes)


def seen(config):
    """Of each layer: bytes before the one that looks, and the steps of its heads."""
    return [(pattern.radius, pattern.dilation) for pattern in config.model.patterns]


def with_windows_of(model, other):
    """The model with what shapes no parameter as in another one."""
    names = ("attention_window", "attention_dilation")
    return dataclasses.replace(model, **{name: getattr(other, name) for name in names})


@pytest.mark.parametrize("size", [*STAGES, "short", ""])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("dilation", ["", "no_dilation"])
def test_every_variant_is_whole(size, windows, dilation):
    config = load(size, windows, dilation)
    model = config.model
    of_paper = (model.positions, model.pre_norm) == ("relative", True)
    assert model.causal and of_paper == (size != "short")
    assert len(model.patterns) == model.num_layers
    assert model.vocab_size == config.data.vocab_size == 256
    assert config.data.scored_length == 512 < config.data.input_length
    assert model.max_length == 32_256
    assert config.train.batch_size % config.train.accumulation_steps == 0
    widths = [radius for radius, _ in seen(config)]
    order = {"": sorted(widths), "decreasing_window": sorted(widths)[::-1]}
    assert widths == order.get(windows, [widths[0]] * len(widths))
    skipping = [max(step) for _, step in seen(config) if not isinstance(step, int)]
    assert (max(skipping, default=1) > 1) == (not dilation)
    assert config_lib.from_json(config_lib.to_json(config)) == config


def test_the_first_stage_is_that_of_the_paper():
    config = load("stage1")
    assert load() == config
    widths, steps = zip(*seen(config), strict=True)
    assert (widths[0], widths[-1]) == (32, 512)
    assert round(np.mean(widths) / 10) == 23  # 230, the fixed width
    # Of layers 0-5, 6-7, 8-9, 10-11: bytes that two heads leave out.
    others = (1,) * 6
    want = [1] * 6 + [2] * 2 + [3] * 2 + [4] * 2
    assert steps == tuple((step, step, *others) for step in want)
    assert load("stage1", "fixed_window").model.attention_window == (460,) * 12
    train, model = config.train, config.model
    assert (train.num_steps, train.batch_size) == (430_000, 32)
    assert (model.embed_dim, model.num_heads, model.mlp_dim) == (512, 8, 2048)
    assert config.schedule.warmup_steps == 10_000


def test_stages_double_windows_and_halve_the_learning_rate():
    configs = [load(stage) for stage in STAGES]
    for before, after in itertools.pairwise(configs):
        pairs = zip(seen(before), seen(after), strict=True)
        assert all(b == (2 * a[0], a[1]) for a, b in pairs)
        rates = [c.optimizer.learning_rate for c in (before, after)]
        assert rates[0] == 2 * rates[1]
        assert with_windows_of(after.model, before.model) == before.model
    lengths = [config.data.input_length for config in configs]
    assert lengths == [2048, 4096, 8192, 16_384, 23_040]
    assert seen(configs[-1])[-1][0] == 8192
    assert configs[-1].optimizer.learning_rate == 0.000015625


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_needs_the_one_before(stage):
    with pytest.raises(config_lib.ConfigError, match="init_from is not; name the"):
        load(stage, **{"checkpoint.init_from": None})


@pytest.mark.parametrize("size", ["stage3", "short"])
def test_variants_of_windows_are_the_same_model(size):
    model = load(size).model
    for windows in WINDOWS:
        other = load(size, windows, "no_dilation").model
        assert with_windows_of(other, model) == model


def test_the_short_one_is_small():
    model, tokens = EncoderForCausalLm(load("short").model), np.zeros((1, 3), np.int32)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))
    assert sum(x.size for x in jax.tree.leaves(shapes)) < 2e6


@pytest.mark.parametrize(
    "names, message",
    [
        (("stage6",), "no variant 'stage6'"),
        (("stage1", "short"), "exclude each other"),
        (("fixed_window", "decreasing_window"), "exclude each other"),
    ],
)
def test_wrong_variants_are_told(names, message):
    with pytest.raises(ValueError, match=message):
        load(*names)
