"""The fine-tuning configs say what the paper says, and build."""

import jax
import numpy as np
import pytest
from every_config_test import parameters_of

from etc_jax import config as config_lib, structure
from etc_jax.cli import flag as config_flag
from etc_jax.sharding import MeshConfig, make_mesh, tree_shardings


def module(name):
    return config_flag.module_of(name)


def load(name, arg="", **checkpoint):
    values = module(name).get_config(arg)
    values.data.update(paths=("train",), validation_paths=("dev",))
    values.checkpoint.update(checkpoint or {"init_from": "models/etc"})
    return config_lib.from_config_dict(values)


@pytest.mark.parametrize(
    "name, arg, count",
    [
        ("etc_base_hotpotqa", "", 165_825_024),
        ("etc_base_wikihop", "shared", 109_128_192),
        ("etc_large_hotpotqa", "", 557_969_408),
        ("etc_large_wikihop", "", 557_969_408),
        ("etc_base_nq", "", 165_825_024),
        ("etc_base_nq", "2x_vocab", 165_825_024 + 599_040),
        ("etc_large_nq", "", 557_969_408),
        ("etc_base_openkp", "shared", 109_128_192),
        ("etc_large_openkp", "", 557_969_408),
        # 109M by the projections, and rows of positions for long and global tokens; no
        # labels: two tables of 32 x (12 heads x 64 and a bias each) in 12 layers.
        (
            "bert_base_nq",
            "",
            109_128_192 + 2 * 512 * 768 - 12 * 2 * 32 * (768 + 12),
        ),
    ],
)
def test_encoders_are_those_of_the_paper(name, arg, count):
    config = load(name, arg)
    shapes = parameters_of(config)
    assert sum(x.size for x in jax.tree.leaves(shapes["encoder"])) == count
    tree_shardings(shapes, make_mesh(MeshConfig(data=8)))  # every path has a row


@pytest.mark.parametrize(
    "name, batch, rate, steps, lengths",
    [
        ("etc_base_hotpotqa", 64, 5e-5, 12_716, (4096, 256)),
        ("etc_large_hotpotqa", 32, 3e-5, 14_129, (4096, 256)),
        ("etc_base_wikihop", 64, 4e-5, 10_251, (4096, 430)),
        ("etc_large_wikihop", 64, 5e-5, 6_834, (4096, 430)),
        ("etc_base_nq", 64, 5e-5, 14_408, (4096, 230)),
        ("etc_large_nq", 64, 3e-5, 9_605, (4096, 230)),
        ("bert_base_nq", 64, 5e-5, 14_408, (512, 1)),
        ("etc_base_openkp", 64, 5e-5, 4_167, (4096, 512)),
        ("etc_large_openkp", 64, 3e-5, 4_167, (4096, 512)),
    ],
)
def test_the_default_is_the_best_setting(name, batch, rate, steps, lengths):
    config = load(name)
    assert (config.train.batch_size, config.optimizer.learning_rate) == (batch, rate)
    assert (config.train.num_steps, config.schedule.warmup(steps)) == (
        steps,
        steps // 10,
    )
    assert (config.data.long_length, config.data.global_length) == lengths
    assert config.optimizer.name == "adamw_bert"


@pytest.mark.parametrize(
    "name, field, size",
    [
        ("etc_base_hotpotqa", "SWEEP", 2 * 4 * 2),
        ("etc_base_hotpotqa", "SEEDS", 3),
        ("etc_large_hotpotqa", "SWEEP", 5 * 4 * 3),
        ("etc_base_wikihop", "SWEEP", 5 * 3),
        ("etc_base_wikihop", "LAMB_SWEEP", 3 * 3),
        ("etc_large_wikihop", "SWEEP", 4 * 2),
        ("etc_base_nq", "SWEEP", 2 * 2),
        ("etc_large_nq", "SWEEP", 2 * 2),
        ("bert_base_nq", "SWEEP", 2 * 2),
        ("etc_base_openkp", "SWEEP", 2 * 2),
        ("etc_large_openkp", "SWEEP", 2 * 2),
    ],
)
def test_a_sweep_is_the_paper_s_grid_of_runs(name, field, size):
    made = module(name)
    settings = getattr(made, field)
    assert len(set(settings)) == size
    for setting in settings:
        values = made.get_config()
        values.checkpoint.init_from = "models/etc"
        values.data.update(paths=("train",), validation_paths=("dev",))
        values.update_from_flattened_dict(setting.fields())
        config = config_lib.from_config_dict(values)
        assert config.train.num_steps == int(
            setting.num_examples / setting.batch_size * setting.epochs
        )


def test_a_forgotten_model_to_start_from_is_an_error():
    with pytest.raises(config_lib.ConfigError, match="init_from is not"):
        load("etc_base_hotpotqa", init_from=None)


@pytest.mark.parametrize(
    "task, arg, lengths",
    [
        ("nq", "512", (512, 128)),
        ("nq", "8192", (8192, 460)),
        ("nq", "fixed_blocks", (4096, 43)),
        ("nq", "512,fixed_blocks", (512, 6)),
        ("openkp", "512", (512, 512)),
        ("openkp", "fixed_blocks", (4096, 43)),
        ("openkp", "512,fixed_blocks", (512, 6)),
    ],
)
def test_lengths_of_variants_are_those_of_the_paper(task, arg, lengths):
    data = load(f"etc_base_{task}", arg).data
    assert (data.long_length, data.global_length) == lengths
    blocks = ("tokens_per_block=97",) if "fixed_blocks" in arg else ()
    assert data.input_options == blocks


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
        values = module(name).get_config()
        values.objective.label_smoothing = 0.1
        config_lib.from_config_dict(values)
