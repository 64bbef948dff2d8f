"""The fine-tuning configs say what the paper says, and build."""

import numpy as np
import pytest
from every_config_test import load, module

from etc_jax import config as config_lib, structure


@pytest.mark.parametrize(
    "name, arg, size",
    [
        ("etc_base_hotpotqa", "", 2 * 4 * 2),
        ("etc_large_hotpotqa", "", 5 * 4 * 3),
        ("etc_base_wikihop", "", 5 * 3),
        ("etc_base_wikihop", "lamb", 3 * 3),
        ("etc_large_wikihop", "", 4 * 2),
        ("etc_large_wikihop", "lamb", 3 * 2),
        ("etc_base_nq", "", 2 * 2),
        ("etc_large_nq", "512,windows=1000000", 2 * 2),
        ("bert_base_nq", "", 2 * 2),
        ("etc_base_openkp", "", 2 * 2),
        ("etc_large_openkp", "", 2 * 2),
    ],
)
def test_a_sweep_is_the_paper_s_grid_of_runs(name, arg, size):
    settings = module(name).get_sweep(arg)
    assert len(set(settings)) == size
    usual = load(name, arg)
    configs = [load(name, arg, **setting.fields()) for setting in settings]
    for setting, config in zip(settings, configs, strict=True):
        assert config.optimizer.name == usual.optimizer.name
        assert config.train.num_steps == int(
            setting.num_examples / setting.batch_size * setting.epochs
        )
    # The setting without a sweep is one of them.
    assert configs.count(usual) == 1


def test_the_best_setting_of_hotpotqa_has_three_seeds():
    for name in ("etc_base_hotpotqa", "etc_large_hotpotqa"):
        assert [setting.seed for setting in module(name).SEEDS] == [0, 1, 2]


def test_steps_of_a_sweep_follow_from_the_windows_of_the_cache():
    few, many = (
        {setting.fields()["train.num_steps"] for setting in made}
        for made in map(module("etc_base_nq").get_sweep, ("", "windows=1000000"))
    )
    assert max(few) < min(many)


def test_a_forgotten_model_to_start_from_is_an_error():
    with pytest.raises(config_lib.ConfigError, match="init_from is not"):
        load("etc_base_hotpotqa", **{"checkpoint.init_from": None})


@pytest.mark.parametrize(
    "name, arg, lengths",
    [
        ("etc_base_hotpotqa", "", (4096, 256)),
        ("etc_large_hotpotqa", "", (4096, 256)),
        ("etc_base_wikihop", "", (4096, 430)),
        ("etc_large_wikihop", "", (4096, 430)),
        ("etc_base_nq", "", (4096, 230)),
        ("etc_large_nq", "", (4096, 230)),
        ("bert_base_nq", "", (512, 1)),
        ("etc_base_openkp", "", (4096, 512)),
        ("etc_large_openkp", "", (4096, 512)),
        ("etc_base_nq", "512", (512, 128)),
        ("etc_base_nq", "8192", (8192, 460)),
        ("etc_base_nq", "fixed_blocks", (4096, 43)),
        ("etc_base_nq", "512,fixed_blocks", (512, 6)),
        ("etc_base_openkp", "512", (512, 512)),
        ("etc_base_openkp", "fixed_blocks", (4096, 43)),
        ("etc_base_openkp", "512,fixed_blocks", (512, 6)),
    ],
)
def test_lengths_are_those_of_the_paper(name, arg, lengths):
    config = load(name, arg)
    assert config.optimizer.name == "adamw_bert"
    data = config.data
    assert (data.long_length, data.global_length) == lengths
    blocks = ("tokens_per_block=97",) if "fixed_blocks" in arg else ()
    assert data.input_options == (("flat=true",) if "bert" in name else blocks)


@pytest.mark.parametrize("name", ["etc_base_nq", "etc_large_nq", "bert_base_nq"])
def test_steps_follow_from_the_windows_of_the_cache(name):
    default, config = load(name).train, load(name, "windows=1000000").train
    epochs = module(name).SETTING.epochs
    assert config.num_steps == 15_625 * epochs != default.num_steps
    for wrong in ("windows=", "windows=0", "windows=-3", "windows=5,windows=6"):
        with pytest.raises(ValueError, match="expected one (whole number|value)"):
            load(name, wrong)
    with pytest.raises(ValueError, match="no variant 'odd'"):
        load(name, "odd,windows=1000000")


def test_the_bert_of_a_window_sees_all_of_it_and_nothing_else():
    config = load("bert_base_nq")
    assert config.model.radius >= config.data.long_length - 1
    assert config.model.max_positions == config.data.long_length
    links = np.full((1, 512, 1), -1, np.int16)
    links[0, 0, 0] = 0
    rules = config.model.rules
    window = structure.Structure(
        np.ones((1, 512), np.int32), np.ones((1, 1), np.int32), links
    )
    long = structure.as_rows(window.long_tokens()), window.long_tokens()
    seen, _ = structure.l2l(rules, long[0], structure.as_columns(long[1]))
    assert np.asarray(seen).all()
    of_global, _ = structure.l2g(
        rules, long[0], structure.as_columns(window.global_tokens())
    )
    assert np.flatnonzero(of_global).tolist() == [0]


@pytest.mark.parametrize(
    "name, arg, loss, looks",
    [
        ("etc_base_openkp", "", "first", True),
        ("etc_base_openkp", "max_loss,no_visual", "best", False),
        ("etc_base_openkp", "512,fixed_blocks", "first", False),
        ("etc_large_openkp", "", "best", True),
        ("etc_large_openkp", "first_occurrence", "first", True),
    ],
)
def test_objectives_of_openkp_are_those_of_the_paper(name, arg, loss, looks):
    objective = load(name, arg).objective
    assert objective.keyphrase_loss == loss
    assert objective.visual_features == looks
    with pytest.raises(config_lib.ConfigError, match="openkp' does not use it"):
        load(name, **{"objective.label_smoothing": 0.1})
