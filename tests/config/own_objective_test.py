"""An objective and a source of one's own, in a package outside the library."""

import sys
import textwrap

import pytest
import toy_job
from ml_collections import config_dict

from etc_jax import config as config_lib
from etc_jax.training.run import train_and_evaluate

MODULE = '''
"""Counts upwards, by a step and with noise of one's own."""

import dataclasses

import numpy as np
import toy_job

from etc_jax.base import registry
from etc_jax.config.sections import DataConfig, ObjectiveConfig

NAME = "own_package.counting"


@registry.register("objective_config", NAME)
@dataclasses.dataclass(frozen=True)
class Counting(ObjectiveConfig):
    reads = ("numbers",)

    stride: int = 3
    noise: float = 0.0

    def problems(self):
        if self.stride < 1:
            yield "stride", f"is {self.stride}; expected at least 1"


@registry.register("source_config", "own_package.numbers")
@dataclasses.dataclass(frozen=True)
class Numbers(DataConfig):
    gives = "numbers"

    first: int = 0


@registry.register("objective", NAME)
def make_job(config, workdir):
    made = toy_job.make_job(config, workdir)
    chosen, vocab_size = config.objective, config.model.vocab_size

    def batch(step, rows):
        found = made.train_batch(step, rows)
        places = np.arange(config.model.length) * chosen.stride + config.data.first
        shift = int(1000 * chosen.noise) * rows[:, None]
        tokens = (places + shift) % vocab_size
        return {**found, "tokens": tokens.astype(np.int32)}

    return dataclasses.replace(made, train_batch=batch)
'''


@pytest.fixture(autouse=True)
def own_package(tmp_path, monkeypatch):
    folder = tmp_path / "own_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "counting.py").write_text(textwrap.dedent(MODULE))
    (folder / "numbers.py").write_text("import own_package.counting\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("own_package", "own_package.counting", "own_package.numbers"):
        sys.modules.pop(name, None)


def values(**changes):
    made = config_lib.default_config(
        toy_job.NAME, objective="own_package.counting", source="own_package.numbers"
    )
    made.update(toy_job.config_dict(**changes).copy_and_resolve_references())
    made.objective.name, made.data.source = (
        "own_package.counting",
        "own_package.numbers",
    )
    return made


def test_its_options_are_in_the_config_and_reach_the_job(tmp_path):
    made = values()
    # As flags do, which know a field's type by its default.
    made.update_from_flattened_dict({"objective.stride": 5, "data.first": 7})
    config = config_lib.from_config_dict(made)
    assert (config.objective.stride, config.objective.noise) == (5, 0.0)
    assert config.data.first == 7
    assert config_lib.from_json(config_lib.to_json(config)) == config
    train_and_evaluate(config, tmp_path / "run")
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert len(lines) == 14


def test_what_is_wrong_is_named_as_for_any_other():
    made = values()
    made.objective.stride = 0
    with pytest.raises(config_lib.ConfigError, match=r"objective.stride: is 0; expec"):
        config_lib.from_config_dict(made)
    made = values()
    made.data.source = "duplication"
    with pytest.raises(config_lib.ConfigError, match="learns from one of .*numbers"):
        config_lib.from_config_dict(made)
    known = values()
    assert isinstance(known, config_dict.ConfigDict)
    with pytest.raises(config_lib.ConfigError, match="no objective named 'own_pack"):
        config_lib.default_config(toy_job.NAME, objective="own_package.nothing")
