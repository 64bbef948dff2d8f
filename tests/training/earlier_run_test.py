"""A run that was begun before the config had some field goes on."""

import json

import pytest
import toy_job
from etils import epath

from etc_jax.training import run as run_lib, workdir
from etc_jax.training.errors import UserError

FIELD = "global_length"


@pytest.fixture
def folder(tmp_path):
    """That of a run whose config lacked a field."""
    config = toy_job.config()
    workdir.record(config, epath.Path(tmp_path))
    file = tmp_path / "run.json"
    record = json.loads(file.read_text())
    del record["config"]["data"][FIELD], record["identity"][f"data.{FIELD}"]
    file.write_text(json.dumps(record | {"config_hash": "of then"}))
    return tmp_path


def test_a_field_that_came_later_has_had_its_default(folder):
    config = toy_job.config()
    assert workdir.check(config, folder)
    saved = json.loads((folder / "run.json").read_text()) | {"step": 1}
    run_lib._check_saved(config, folder, saved)


def test_another_config_is_refused_all_the_same(folder):
    config = toy_job.config(train__seed=5)
    with pytest.raises(UserError, match="train.seed: 0 there, 5 now"):
        workdir.check(config, folder)
    saved = json.loads((folder / "run.json").read_text()) | {"step": 1}
    with pytest.raises(UserError, match="of a run with another config"):
        run_lib._check_saved(config, folder, saved)
