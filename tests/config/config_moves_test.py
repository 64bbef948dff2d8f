"""What a config says of fields and names of before, and of damaged records."""

import dataclasses
import json
import pathlib
import typing

import pytest

from etc_jax import config as config_lib
from etc_jax.config import kinds as config_kinds
from etc_jax.training import workdir

RECORDED = json.loads(
    (pathlib.Path(__file__).parent / "recorded_configs.json").read_text()
)


def config_of(name):
    return config_lib.from_record(RECORDED[name])


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
