"""Mistakes of training that are named before anything is compiled."""

import re
import shutil
import types

import numpy as np
import pytest
import toy_job
from training_runs import MESH, change_batches, plan_of

from etc_jax import config as config_lib
from etc_jax.config import CheckpointConfig
from etc_jax.training import run as run_lib, workdir as workdir_lib
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import plan
from etc_jax.training.run import train_and_evaluate


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A workdir with a run of 4 steps."""
    folder = tmp_path_factory.mktemp("finished")
    train_and_evaluate(short(), folder)
    return folder


def short(**changes):
    return toy_job.config(**{"train__num_steps": 4, **changes})


@pytest.mark.parametrize(
    "changes, path, message",
    [
        ({"train__accumulation_steps": 0}, "train.accumulation_steps", "1 or more"),
        ({"train__check_batches": 0}, "train.check_batches", "1 or more"),
        ({"train__profile_start_step": -1}, "train.profile_start_step", "0 or more"),
        ({"train__profile_start_step": 12}, "train.profile_start_step", "ends at"),
        ({"train__profile_steps": 0}, "train.profile_steps", "1 or more"),
        ({"schedule__power": 2.0}, "schedule.power", "'linear' does not use it"),
        ({"schedule__end_value": 0.1}, "schedule.end_value", "does not use it"),
        (
            {"schedule__name": "polynomial", "schedule__end_value": -0.1},
            "schedule.end_value",
            "0 or more",
        ),
        (
            {"schedule__name": "polynomial", "schedule__power": 0.0},
            "schedule.power",
            "more than 0",
        ),
        (
            {"schedule__name": "polynomial", "schedule__end_value": 0.5},
            "schedule.end_value",
            "more than the peak, optimizer.learning_rate = 0.01",
        ),
        (
            {"train__accumulation_steps": 3, "mesh__fsdp": 2},
            "train.batch_size",
            r"not divisible by 6 \(mesh.data x mesh.fsdp x train.accumulation_steps\); "
            "nearest valid: 6 or 12",
        ),
        ({"checkpoint__keep": 0}, "checkpoint.keep", "1 or more"),
        ({"checkpoint__keep_best": -1}, "checkpoint.keep_best", "0 or more"),
        (
            {"checkpoint__keep_every_steps": 6},
            "checkpoint.keep_every_steps",
            "not a multiple of every_steps = 4: .* use 4",
        ),
        (
            {"checkpoint__keep_best": 1},
            "checkpoint.every_steps",
            "is 4, not a multiple of train.eval_every_steps = 6.*nearest valid: 6",
        ),
        (
            {"checkpoint__best_is": "best"},
            "checkpoint.best_is",
            "expected one of lowest, highest",
        ),
    ],
)
def test_values_of_the_training_sections(changes, path, message):
    with pytest.raises(config_lib.ConfigError) as caught:
        toy_job.config(**changes)
    ((found, text),) = caught.value.problems
    assert found == path and re.search(message, text)


@pytest.mark.parametrize(
    "changes, is_same",
    [
        # How a run is watched.
        (
            {
                "train__check_batches": 2,
                "train__tensorboard": True,
                "train__profile_start_step": 3,
                "train__profile_steps": 1,
            },
            True,
        ),
        # What is kept of it.
        (
            {
                "checkpoint__every_steps": 6,
                "checkpoint__keep": 1,
                "checkpoint__keep_every_steps": 6,
                "checkpoint__keep_best": 1,
                "checkpoint__best_metric": "x",
                "checkpoint__best_is": "highest",
            },
            True,
        ),
        # What is computed.
        ({"train__accumulation_steps": 2}, False),
        ({"schedule__name": "polynomial"}, False),
        ({"optimizer__name": "lamb"}, False),
        ({"checkpoint__init_from": "/somewhere"}, False),
    ],
)
def test_the_identity_of_a_run_is_what_it_computes(changes, is_same):
    found = config_lib.config_hash(toy_job.config(**changes))
    assert (found == config_lib.config_hash(toy_job.config())) == is_same


@pytest.mark.usefixtures("no_compile")
def test_rows_must_divide_by_devices_and_microbatches(tmp_path):
    config = short(train__batch_size=24, train__accumulation_steps=2)
    with pytest.raises(UserError, match="not divisible by 16.*nearest valid: 16 or 32"):
        train_and_evaluate(config, tmp_path)


@pytest.mark.usefixtures("no_compile")
@pytest.mark.parametrize("step", [0, 3, 7])
def test_the_first_batches_are_looked_at(tmp_path, monkeypatch, step):
    change_batches(
        monkeypatch,
        lambda at, batch: batch | {"tokens": batch["tokens"] + 40 * (at == step)},
    )
    with pytest.raises(UserError, match=f"step {step}: token id .* >= vocab_size 32"):
        train_and_evaluate(toy_job.config(), tmp_path)
    assert not workdir_lib.is_recorded(tmp_path)  # another config may be tried here


def plan_for(monkeypatch, change_fn, count):
    with monkeypatch.context() as patch:
        change_batches(patch, change_fn)
        return plan_of(toy_job.config(), check_batches=count)


def test_so_many_batches_are_looked_at_as_asked(monkeypatch):
    def looked_at(count):
        seen = []
        plan_for(monkeypatch, lambda step, batch: seen.append(step) or batch, count)
        return seen

    assert looked_at(5) == [0, 1, 2, 3, 4]
    assert looked_at(99) == list(range(12))  # train.num_steps
    monkeypatch.setattr(plan, "CHECK_SECS", 0.0)
    assert looked_at(5) == [0]


def test_batches_of_other_shapes_are_named(monkeypatch):
    def longer(step, batch):
        if step == 2:
            batch["tokens"] = np.zeros((8, 9), np.int32)
            del batch["scale"]
        return batch

    with pytest.raises(UserError) as caught:
        plan_for(monkeypatch, longer, 4)
    text = str(caught.value)
    assert "step 2: batch entry 'tokens' is int32[8, 9], but int32[8, 8]" in text
    assert "step 2: batch entry 'scale' is absent, but float32[8]" in text


def test_too_few_rows_are_named(monkeypatch):
    with pytest.raises(UserError, match="'tokens' has 7 rows, expected 8"):
        plan_for(monkeypatch, lambda step, b: {k: x[1:] for k, x in b.items()}, 1)


def test_a_batch_that_cannot_be_made_is_named(monkeypatch):
    def broken(step, batch):
        raise ValueError("shard 3 is empty")

    with pytest.raises(UserError, match="batch of step 0 cannot be made: shard 3"):
        plan_for(monkeypatch, broken, 1)


def test_checking_a_workdir_leaves_nothing(tmp_path):
    workdir_lib.check(short(), tmp_path)
    workdir_lib.check(short(), tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def free(monkeypatch, size):
    usage = types.SimpleNamespace(free=size)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_the_space_that_checkpoints_need(tmp_path, monkeypatch):
    free(monkeypatch, 300)

    def refused(checkpoint_bytes, **rules):
        section = CheckpointConfig(every_steps=4, **rules)
        try:
            workdir_lib.check_space(
                tmp_path,
                checkpoint_bytes=checkpoint_bytes,
                section=section,
                num_steps=8,
            )
        except UserError as error:
            return str(error)
        return ""

    said = refused(checkpoint_bytes=200, keep=1, keep_best=1, keep_every_steps=8)
    assert "4 checkpoints" in said and said.endswith(
        "keep = 1, checkpoint.keep_best = 1, checkpoint.keep_every_steps = 8"
    )
    assert not refused(checkpoint_bytes=100, keep=2)
    assert refused(checkpoint_bytes=101, keep=2)
    for step in (4, 8):
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
    assert not refused(checkpoint_bytes=300, keep=2)
    assert refused(checkpoint_bytes=301, keep=2)
    assert not refused(checkpoint_bytes=150, keep=3)


def test_a_finished_run_needs_no_space(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    free(monkeypatch, 0)
    assert train_and_evaluate(short(), tmp_path).step == 4


@pytest.fixture
def unrecorded(finished, tmp_path):
    """The finished run without run.json, which would refuse earlier."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    (tmp_path / "run.json").unlink()
    return tmp_path


def test_a_checkpoint_of_other_code_names_the_first_arrays(unrecorded, monkeypatch):
    make = toy_job.init_params

    def more(c, rng):
        return {**make(c, rng), **{f"n{i}": {"bias": np.zeros(3)} for i in range(4)}}

    monkeypatch.setattr(toy_job, "init_params", more)
    monkeypatch.setattr(run_lib, "init_state", lambda *a: pytest.fail("initialised"))
    with pytest.raises(UserError) as caught:
        train_and_evaluate(short(), unrecorded)
    text = str(caught.value)
    assert "12 differences (look at the config's section model" in text
    assert text.count("not in the checkpoint") == 5 and "and 7 more" in text


def test_a_resumed_run_looks_at_one_batch(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    seen = []
    change_batches(monkeypatch, lambda step, batch: seen.append(step) or batch)
    train_and_evaluate(short(), tmp_path)
    assert [step for step in seen if step < 10**6] == [0]


def test_microbatches_on_a_mesh_pass(tmp_path):
    config = short(**MESH, train__accumulation_steps=2)
    assert train_and_evaluate(config, tmp_path).step == 4
