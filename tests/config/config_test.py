import dataclasses
import json
import re

import ml_collections
import pytest
import toy_job
from hypothesis import given, strategies as hs

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.config.fields import build


def as_dict(**changes):
    return toy_job.config_dict(**changes).to_dict()


def problems_of(values):
    with pytest.raises(config_lib.ConfigError) as caught:
        config_lib.from_config_dict(values)
    return dict(caught.value.problems)


def test_defaults_are_the_dataclasses_defaults():
    cfg = config_lib.default_config(toy_job.NAME)
    cfg.objective.name = toy_job.NAME
    cfg.data.vocab_size = 32
    built = config_lib.from_config_dict(cfg)
    assert built.model == toy_job.ToyConfig()
    assert built.train == config_lib.TrainConfig()
    assert built.mesh == config_lib.MeshConfig()
    assert hash(built) == hash(config_lib.from_config_dict(cfg))


def test_left_out_sections_have_their_defaults():
    built = config_lib.from_config_dict(
        {
            "model": {"family": toy_job.NAME},
            "objective": {"name": toy_job.NAME},
            "data": {"vocab_size": 32},
        }
    )
    assert built.optimizer == config_lib.OptimizerConfig()


def test_none_fields_take_a_value_of_their_type_alone():
    cfg = toy_job.config_dict()
    cfg.data.mlm_capacity = 16
    assert config_lib.from_config_dict(cfg).data.mlm_capacity == 16
    with pytest.raises(TypeError):
        cfg.data.mlm_capacity = "many"


def test_all_errors_come_at_once():
    values = as_dict()
    values["train"] |= {"num_stepz": 3, "seed": 2**40, "batch_size": "8"}
    values["optimizer"] |= {"learning_rate": float("nan"), "b1": True}
    values["schedule"] |= {"warmup_steps": 13}
    values["checkpont"] = {}
    found = problems_of(values)
    assert set(found) == {
        "train.num_stepz",
        "train.seed",
        "train.batch_size",
        "optimizer.learning_rate",
        "optimizer.b1",
        "schedule.warmup_steps",
        "checkpont",
    }
    assert "did you mean 'num_steps'?" in found["train.num_stepz"]
    assert "did you mean 'checkpoint'?" in found["checkpont"]
    assert "'8' (str); expected an int" in found["train.batch_size"]


@pytest.mark.parametrize(
    "section, field, value, message",
    [
        ("train", "batch_size", 8.0, "expected an int"),
        ("train", "batch_size", True, "expected an int"),
        ("train", "num_steps", -1, "expected 0 (evaluate alone) or more"),
        ("train", "batch_size", 0, "expected 1 or more"),
        ("train", "seed", -1, "a whole number from 0 to 4294967295"),
        ("train", "eval_steps", 0, "expected 1 or more"),
        ("optimizer", "learning_rate", "1e-3", "expected a float"),
        ("optimizer", "learning_rate", -0.1, "more than 0"),
        ("optimizer", "b2", 1.0, "in [0, 1)"),
        ("optimizer", "name", "adamv", "did you mean 'adamw'"),
        ("schedule", "name", "cosin", "there are: constant, inverse_sqrt, linear"),
        ("schedule", "warmup_steps", 13, "more than train.num_steps = 12"),
        ("schedule", "warmup_steps", 2.5, "expected whole steps, or a share below 1"),
        ("objective", "similarity", "l2", "one of cosine, dot"),
        ("objective", "mlm_weight", -1, "0 or more"),
        ("data", "validation_fraction", 1.0, "in (0, 1)"),
        ("data", "long_length", 0, "1 or more"),
        ("data", "cache_dir", 3, "expected a string or None"),
        ("mesh", "sequence", 0, "1 or more"),
        ("mesh", "data", 0, "or -1"),
        ("checkpoint", "keep", 0, "1 or more"),
        ("model", "embed_dim", 0, "at least 1"),
        ("model", "family", "toy_bigran", "did you mean 'toy_bigram'"),
    ],
)
def test_one_wrong_field_gives_one_clear_error(section, field, value, message):
    values = as_dict()
    if section == "objective":
        values["objective"]["name"] = "mlm_cpc"
    values[section][field] = value
    found = problems_of(values)
    assert list(found) == [f"{section}.{field}"]
    assert message in found[f"{section}.{field}"]


@pytest.mark.parametrize(
    "changes, path, message",
    [
        ({"train__batch_size": 10**9}, "train.batch_size", "tokens, 4,864 GB for each"),
        ({"mesh__fsdp": 3}, "train.batch_size", "nearest valid: 6 or 9"),
        ({"mesh__data": 16}, "train.batch_size", "nearest valid: 16"),
        ({"mesh__tensor": 3}, "model.num_heads", "nearest valid: 6 or 9"),
        ({"model__mlp_dim": 33, "mesh__tensor": 2}, "model.mlp_dim", "32 or 34"),
        ({"data__vocab_size": 33}, "model.vocab_size", "less than data.vocab_size"),
    ],
)
def test_rules_between_sections(changes, path, message):
    assert message in problems_of(toy_job.config_dict(**changes))[path]


def test_model_dimension_error_names_dimension_and_axis():
    message = problems_of(toy_job.config_dict(mesh__tensor=3))["model.vocab_size"]
    assert "vocab dimension" in message
    assert "mesh.tensor x mesh.fsdp = 3" in message


def test_missing_family_lists_what_there_is():
    assert (
        toy_job.NAME
        in problems_of({"model": {}, "objective": {"name": toy_job.NAME}})[
            "model.family"
        ]
    )


def test_a_class_that_refuses_is_an_error_of_its_section():
    @dataclasses.dataclass(frozen=True)
    class Picky:
        size: int
        flag: bool = False

        def __post_init__(self):
            if self.size == 3:
                raise ValueError("three is a crowd")

    problems = []
    assert build(Picky, {"size": 3}, "p", problems) is None
    assert build(Picky, {}, "p", problems) is None
    assert build(Picky, {"size": None}, "p", problems) is None
    assert build(Picky, 7, "p", problems) is None
    assert [m for _, m in problems] == [
        "three is a crowd",
        "is required, but was not given",
        "is None (NoneType); expected an int",
        "is 7; expected a section with fields",
    ]


def test_tuples_and_nested_sections():
    @dataclasses.dataclass(frozen=True)
    class Inner:
        x: int = 1

    @dataclasses.dataclass(frozen=True)
    class Outer:
        inner: Inner = Inner()
        sizes: tuple[int, ...] = (1, 2)
        pair: tuple[int, float] | None = None

    problems = []
    got = build(Outer, {"inner": {"x": 5}, "sizes": [3], "pair": [1, 2]}, "o", problems)
    assert not problems and got == Outer(Inner(5), (3,), (1, 2.0))
    build(Outer, {"inner": {"y": 5}, "sizes": [3.5], "pair": [1]}, "o", problems)
    assert [path for path, _ in problems] == ["o.inner.y", "o.sizes", "o.pair"]


@given(
    lr=hs.floats(1e-9, 10), seed=hs.integers(0, 2**32 - 1), steps=hs.integers(2, 10**9)
)
def test_json_round_trip_keeps_config_and_hash(lr, seed, steps):
    made = toy_job.config(
        optimizer__learning_rate=lr, train__seed=seed, train__num_steps=steps
    )
    back = config_lib.from_json(config_lib.to_json(made))
    assert back == made
    assert config_lib.config_hash(back) == config_lib.config_hash(made)


def test_a_warm_up_by_share_is_the_run_of_its_steps():
    share, steps = (toy_job.config(schedule__warmup_steps=x) for x in (0.25, 3))
    assert share != steps and config_lib.identity(share) == config_lib.identity(steps)
    # As the versions before shares recorded it.
    assert config_lib.identity(share)["schedule.warmup_steps"] == 3
    assert '"schedule.warmup_steps": 3,' in json.dumps(config_lib.identity(share))
    assert config_lib.config_hash(share) == config_lib.config_hash(steps)


def test_hash_changes_with_what_is_computed_alone():
    base = config_lib.config_hash(toy_job.config())
    for same in ({"mesh__fsdp": 2}, {"train__log_every_steps": 3}):
        assert config_lib.config_hash(toy_job.config(**same)) == base
    others = (
        {"train__seed": 1},
        {"train__num_steps": 13},
        {"model__mlp_dim": 64},
        {"optimizer__b1": 0.8},
    )
    hashes = {config_lib.config_hash(toy_job.config(**c)) for c in others}
    assert len(hashes | {base}) == len(others) + 1


def test_etc_is_the_default_family():
    cfg = config_lib.default_config()
    assert cfg.model.family == "etc"
    assert isinstance(cfg, ml_collections.ConfigDict)
    cls = registry.lookup("model_config", "etc")
    names = {f.name for f in dataclasses.fields(cls)}
    assert set(cfg.model) == names | {"family"}
    cfg.objective.name = toy_job.NAME
    assert config_lib.from_config_dict(cfg).model == cls()


def test_config_is_plain_json():
    assert json.loads(config_lib.to_json(toy_job.config()))["model"]["family"] == (
        toy_job.NAME
    )


def test_variants_are_read_from_the_argument_of_a_config_file():
    groups = (("short", "long"),)
    flags = ("shared", "no_cpc")
    assert config_lib.variants("", *groups, flags=flags) == set()
    got = config_lib.variants("long,no_cpc", *groups, flags=flags)
    assert got == {"long", "no_cpc"}


@pytest.mark.parametrize(
    "arg, message",
    [
        ("shard", "no variant 'shard'.*'shared'"),
        ("short,long", "short, long exclude each other"),
        ("shared,shared", "given twice"),
        ("shared,", "no variant ''"),
    ],
)
def test_wrong_variants_are_named(arg, message):
    with pytest.raises(ValueError, match=message):
        config_lib.variants(arg, ("short", "long"), flags=("shared", "no_cpc"))


CACHES = {"source": "cache", "paths": ("a",), "validation_paths": ("b",)}
WINDOWS = {**CACHES, "source": "windows"}


@pytest.mark.parametrize(
    "values, path, message",
    [
        ({"source": "jsonl"}, "data.paths", "is empty; name the files"),
        ({"paths": ("a",)}, "data.paths", "'builtin' does not use it"),
        ({"source": "cache", "paths": ("a",)}, "data.validation_paths", "is empty"),
        ({**CACHES, "weights": (1.0,) * 2}, "data.weights", "2 values; expected one"),
        ({**CACHES, "weights": (0.0,)}, "data.weights", "expected numbers above 0"),
        ({"input_options": ("a=1",)}, "data.input_options", "'builtin' does not use"),
        (
            {**WINDOWS, "input_options": ("a=1", "a=2")},
            "data.input_options",
            "option once",
        ),
        (
            {**WINDOWS, "input_options": ("flat",)},
            "data.input_options",
            "expected NAME=",
        ),
        ({"source": "jason"}, "data.source", "did you mean 'jsonl'"),
        ({"global_tokens": "fixed_blocks"}, "data.global_tokens", "CPC masks sent"),
        ({"packing": "concatenated"}, "data.packing", "token for each sentence; set"),
        ({"packing": "random"}, "data.packing", "is 'random'"),
        ({"long_length": 64}, "data.max_sentence_tokens", "fits into no window"),
        ({"cpc_share": 1.5}, "data.cpc_share", r"expected a number in \(0, 1\)"),
    ],
)
def test_data_that_cannot_be_read_is_named(values, path, message):
    changed = as_dict()
    changed["objective"]["name"] = "mlm_cpc"
    changed["data"] |= values
    assert re.search(message, problems_of(changed)[path])


def test_lists_of_json_in_a_section_that_nothing_uses_are_its_defaults():
    """Of the generator of model_denoising, whose fields have tuples."""
    values = config_lib.default_config(toy_job.NAME).to_dict()
    values["objective"]["name"] = toy_job.NAME
    values["data"]["vocab_size"] = 32
    listed = {**values["objective"]["generator"], "attention_window": [512]}
    values["objective"]["generator"] = listed
    config_lib.from_config_dict(values)
    values["objective"]["generator"] = {**listed, "attention_window": [256]}
    assert "model_denoising does" in problems_of(values)["objective.generator"]
