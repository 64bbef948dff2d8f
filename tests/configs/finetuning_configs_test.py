"""The fine-tuning configs say what the paper says, and build."""

import importlib.util
import pathlib

import jax
import pytest

from etc_jax import config as config_lib
from etc_jax.objectives import finetuning
from etc_jax.sharding import MeshConfig, make_mesh, tree_shardings

CONFIGS = pathlib.Path(__file__).resolve().parent.parent.parent / "configs"
TASKS = ("hotpotqa", "wikihop")
NAMES = [f"etc_{size}_{task}" for size in ("base", "large") for task in TASKS]


def module(name):
    spec = importlib.util.spec_from_file_location(name, CONFIGS / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def load(name, arg="", **checkpoint):
    values = module(name).get_config(arg)
    values.data.update(paths=("train",), held_back_paths=("dev",))
    values.checkpoint.update(checkpoint or {"init_from": "models/etc"})
    return config_lib.from_config_dict(values)


def flags(name):
    """Every variant, as the message about an unknown one lists them."""
    with pytest.raises(ValueError, match="there are: ") as caught:
        module(name).get_config("xyz")
    return str(caught.value).partition("there are: ")[2].split(", ")


@pytest.mark.parametrize(
    "name, arg, count",
    [
        ("etc_base_hotpotqa", "", 165_825_024),
        ("etc_base_wikihop", "shared", 109_128_192),
        ("etc_large_hotpotqa", "", 557_969_408),
        ("etc_large_wikihop", "", 557_969_408),
    ],
)
def test_encoders_are_those_of_the_paper(name, arg, count):
    config = load(name, arg)
    task = finetuning.find(config.model, config.objective)
    shapes = jax.eval_shape(task.init, jax.random.key(0))
    assert sum(x.size for x in jax.tree.leaves(shapes["encoder"])) == count
    tree_shardings(shapes, make_mesh(MeshConfig(data=8)))  # every path has a row


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_builds_and_changes_something(name):
    default = load(name)
    assert len(flags(name)) >= 2
    for flag in flags(name):
        checkpoint = {"init_from": None} if flag == "from_scratch" else {}
        assert load(name, flag, **checkpoint) != default, flag
        assert flag in module(name).__doc__


@pytest.mark.parametrize(
    "name, batch, rate, steps, lengths",
    [
        ("etc_base_hotpotqa", 64, 5e-5, 12_716, (4096, 256)),
        ("etc_large_hotpotqa", 32, 3e-5, 14_129, (4096, 256)),
        ("etc_base_wikihop", 64, 4e-5, 10_251, (4096, 430)),
        ("etc_large_wikihop", 64, 5e-5, 6_834, (4096, 430)),
    ],
)
def test_the_default_is_the_best_setting(name, batch, rate, steps, lengths):
    config = load(name)
    assert (config.train.batch_size, config.optimizer.learning_rate) == (batch, rate)
    assert (config.train.num_steps, config.schedule.warmup_steps) == (
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
    ],
)
def test_a_sweep_is_the_paper_s_grid_of_runs(name, field, size):
    made = module(name)
    settings = getattr(made, field)
    assert len(set(settings)) == size
    for setting in settings:
        values = made.get_config()
        values.checkpoint.init_from = "models/etc"
        values.data.update(paths=("train",), held_back_paths=("dev",))
        values.update_from_flattened_dict(setting.fields())
        config = config_lib.from_config_dict(values)
        assert config.train.num_steps == int(
            setting.num_examples / setting.batch_size * setting.epochs
        )


def test_a_forgotten_model_to_start_from_is_an_error():
    with pytest.raises(config_lib.ConfigError, match="init_from is not"):
        load("etc_base_hotpotqa", init_from=None)
