"""Configs as earlier versions recorded them, their fields and names, and damage."""

import dataclasses
import json
import pathlib
import typing

import pytest

from etc_jax import config as config_lib
from etc_jax.config import kinds as config_kinds, sections as config_sections
from etc_jax.config.upgrades import RENAMED
from etc_jax.training import workdir

RECORDED = json.loads(
    (pathlib.Path(__file__).parent / "recorded_configs.json").read_text()
)


def config_of(name):
    return config_lib.from_record(RECORDED[name])


def test_values_are_those_that_were_recorded():
    for name, recorded in RECORDED.items():
        config = config_of(name)
        for section in (
            "model",
            "data",
            "optimizer",
            "schedule",
            "train",
            "checkpoint",
        ):
            now = config_lib.to_dict(config)[section]
            # Fields that came later, as they were before.
            later = {
                "format": None,
                "packing": "best_fit",
                "pre_norm": False,
                "head_dim": None,
                "positions": "learnt",
                "lsh_attention_dropout_rate": None,
                "wandb_project": None,
                "export_cluster": None,
                "part_per_row": False,
            }
            was = {**later, **_tuples(recorded[section])}
            if section == "data":
                was |= lengths_of(config, recorded["data"])
            assert now.items() <= was.items(), (name, section)
        now = config_lib.to_dict(config)["objective"]
        later = {"r3f": dataclasses.asdict(config_sections.R3fConfig())}
        was = {**later, **_tuples(recorded["objective"]), "name": now["name"]}
        assert now.items() <= was.items(), name


def lengths_of(config, was):
    """The lengths: one sequence was the long tokens, and texts had global ones too."""
    usual = config_lib.default_config(config.family).data
    found = {name: usual[name] for name in config_sections.LENGTHS}
    if config.model.formats == ("structured",):
        return found | {name: was[name] for name in ("long_length", "global_length")}
    found["input_length"] = was["long_length"]
    if was["source"] == "windows":
        found["global_length"] = was["global_length"]
    return found


def _tuples(values):
    """JSON's lists as a config has them."""
    return {RENAMED.get(k, k): _tuple(x) for k, x in values.items()}


def _tuple(value):
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def test_what_was_a_data_set_is_a_format_of_another():
    config = config_of("hotpotqa_longformer")
    assert config.objective.name == "hotpotqa" and config.model.formats[0] == "sequence"


def test_options_that_stood_twice_are_those_of_the_inputs():
    config = config_of("coreference")
    assert "singletons=true" in config.data.input_options
    assert not hasattr(config.objective, "singletons")


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_of_before_goes_on_and_no_other_one(name):
    saved = {"config_hash": "0" * 16, "config": RECORDED[name], "identity": {}}
    config = config_of(name)
    assert workdir.is_same_run(saved, config)
    changed = config_lib.to_dict(config)
    changed["train"]["seed"] += 1
    other = config_lib.from_config_dict(changed)
    assert not workdir.is_same_run(saved, other)
    assert workdir.changes(saved, other).startswith("1 changes:\n  train.seed: ")


def test_values_that_nothing_used_are_left_out():
    recorded = {**RECORDED["causal_lm"]}
    recorded["data"] = {**recorded["data"], "cpc_share": 0.3, "cache_dir": "x"}
    recorded["objective"] = {**recorded["objective"], "cpc_weight": 0.7}
    assert config_lib.from_record(recorded) == config_of("causal_lm")
    with pytest.raises(config_lib.ConfigError, match="cpc_share: is 0.3, but"):
        config_lib.from_config_dict({**recorded, "objective": {"name": "causal_lm"}})


@pytest.mark.parametrize("section", ["data", "objective"])
def test_a_field_that_no_version_had_is_an_error(section):
    recorded = RECORDED["causal_lm"]
    recorded = {**recorded, section: {**recorded[section], "of_tomorrow": 3}}
    with pytest.raises(config_lib.ConfigError, match=f"{section}.of_tomorrow: unknown"):
        config_lib.from_record(recorded)


@pytest.mark.parametrize(
    "damaged",
    [
        3,
        [],
        None,
        {"objective": 3},
        {"model": {"family": "etc"}, "objective": []},
        {"model": {"family": "etc"}, "objective": {"name": {}}},
        {"model": {"family": "etc"}, "data": {"source": []}},
    ],
)
def test_a_damaged_record_is_no_config_and_no_run(damaged):
    with pytest.raises(config_lib.ConfigError):
        config_lib.from_record(damaged)
    assert not workdir.is_same_run({"config": damaged}, config_of("causal_lm"))


@pytest.mark.parametrize(
    "field, value", [("span_tokens", 10), ("part_length", 512), ("singletons", True)]
)
def test_a_config_file_learns_where_a_field_is_now(field, value):
    values = config_lib.to_dict(config_of("coreference"))
    values["objective"][field] = value
    now = f'data.input_options to have "{field}={value}"'
    with pytest.raises(config_lib.ConfigError, match=f"has moved: set {now}"):
        config_lib.from_config_dict(values)


def test_a_config_file_learns_what_a_data_set_is_now():
    values = config_lib.to_dict(config_of("hotpotqa_longformer"))
    values["objective"]["name"] = "hotpotqa_longformer"
    with pytest.raises(config_lib.ConfigError, match="inputs now; set 'hotpotqa'"):
        config_lib.from_config_dict(values)


def test_the_job_of_all_data_sets_is_no_objective():
    values = config_lib.to_dict(config_of("hotpotqa_longformer"))
    values["objective"]["name"] = "data_set"
    with pytest.raises(config_lib.ConfigError, match="no objective named 'data_set'"):
        config_lib.from_config_dict(values)


def test_sections_share_a_field_with_one_type_and_default():
    for kind in ("objective", "data"):
        fields = {}
        for section in config_kinds.known_sections(kind).values():
            types = typing.get_type_hints(section)  # some modules keep them as text
            for field in dataclasses.fields(section):
                if field.name not in ("name", "source"):  # what they go by
                    own = types[field.name], field.default
                    assert fields.setdefault(field.name, own) == own
        assert len(fields) > 5
