"""Parameters of a run, read without the run."""

import jax
import numpy as np
import pytest
import toy_job
from checkpoint_states import (
    STEPS,
    data_file,
    flip_a_bit,
    kept,
    save_all,
    states_fixture,  # noqa: F401
)

from etc_jax.config import to_dict
from etc_jax.training.checkpoints.saved_params import read_params
from etc_jax.training.errors import CorruptCheckpointError, UserError

CONFIG = toy_job.config()


@pytest.fixture
def run(states, tmp_path):
    """A workdir with a checkpoint of each of `STEPS`."""
    save_all(tmp_path / "run", states, {"config": to_dict(CONFIG)})
    return tmp_path / "run"


def same(params, state):
    got, want = jax.tree.leaves(params), jax.tree.leaves(state.params)
    assert all(isinstance(a, np.ndarray) for a in got)
    pairs = zip(got, want, strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def test_the_newest_ones_are_read_bit_by_bit(run, states):
    got = read_params(run)
    assert got.step == 6 and got.config == CONFIG
    assert got.folder.name == "6"
    assert jax.tree.structure(got.params) == jax.tree.structure(states[6].params)
    assert same(got.params, states[6]) and not same(got.params, states[4])


@pytest.mark.parametrize("below, step", [("", 2), ("checkpoints/2", None)])
def test_a_checkpoint_can_be_chosen(run, states, below, step):
    got = read_params(run / below, step)
    assert got.step == 2 and same(got.params, states[2])


def test_parameters_stored_in_bfloat16_stay_so(states, tmp_path):
    half = jax.tree.map(lambda x: x.astype("bfloat16"), states[2].params)
    state = type(states[2])(states[2].step, half, states[2].opt_state)
    save_all(tmp_path, {2: state}, {"config": to_dict(CONFIG)})
    assert same(read_params(tmp_path).params, state)


def test_a_damaged_one_is_named_and_the_one_before_is_read(run, states, caplog):
    flip_a_bit(data_file(run / "checkpoints" / "6"))
    before = kept(run)
    got = read_params(run)
    assert got.step == 4 and same(got.params, states[4])
    assert "CORRUPT CHECKPOINT" in caplog.text and "checkpoints/6" in caplog.text
    # The run may be going on: nothing is moved.
    assert kept(run) == before and not (run / "bad_checkpoints").exists()


def test_a_damaged_one_that_was_asked_for_is_an_error(run):
    flip_a_bit(data_file(run / "checkpoints" / "6"))
    with pytest.raises(CorruptCheckpointError, match="differs from its checksum"):
        read_params(run, 6)
    for step in STEPS[:2]:
        flip_a_bit(data_file(run / "checkpoints" / str(step)))
    with pytest.raises(CorruptCheckpointError, match="no whole checkpoint in"):
        read_params(run)


def test_what_is_not_there_is_named(run, tmp_path):
    with pytest.raises(UserError, match="of step 3 in .*; of: 2, 4, 6"):
        read_params(run, 3)
    with pytest.raises(UserError, match="no finished checkpoint at"):
        read_params(tmp_path / "none")
    with pytest.raises(UserError, match="one checkpoint already"):
        read_params(run / "checkpoints" / "2", 2)


def test_a_checkpoint_without_a_config_is_refused(states, tmp_path):
    save_all(tmp_path, {2: states[2]})
    with pytest.raises(UserError, match="cannot read: 'config'"):
        read_params(tmp_path)
