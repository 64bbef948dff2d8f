"""Pre-training in two microbatches, stopped and resumed: no bit is another."""

import pytest
from main_path import (  # noqa: F401
    DROPOUT,
    MESH,
    cache_dir_fixture,
    noted_batches,
    small_config,
)
from toy_job import digest
from training_runs import compiled_once, stop_after, timeless

from etc_jax.base import registry
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
# Quicker: tests/training/resume_test.py, on a toy; main_path_test.py, one stop.
pytestmark = pytest.mark.full

# The first step; between two reports; an epoch's edge; an evaluation; before the end.
STOPS = (1, 3, 5, 8, 9)
STEPS = 10


@pytest.fixture
def config(cache_dir):
    """Of two microbatches a step, over more than an epoch."""
    changes = {
        "data.cache_dir": cache_dir,
        "train.num_steps": STEPS,
        "train.batch_size": 16,
        "train.accumulation_steps": 2,
        "train.log_every_steps": 2,
        "train.eval_every_steps": 4,
        "train.check_batches": 1,
        "train.eval_steps": 1,
        "model.num_layers": 1,
    }
    return small_config(DROPOUT, MESH, changes)


def test_the_stops_have_an_epochs_edge_among_them(config, tmp_path):
    job = registry.lookup("objective", config.objective.name)
    per_epoch = job(config, tmp_path).steps_per_epoch
    # An epoch ends within the step before the stop, or the step after it.
    assert any(abs(stop - per_epoch) < 1 for stop in STOPS), per_epoch


@pytest.fixture
def programs():
    """Real processes, each with programs of its own, are in `two_processes_test`."""
    with compiled_once():
        yield


def test_stops_of_microbatches_change_no_bit(config, programs, tmp_path):
    with noted_batches() as expected:
        whole = train_and_evaluate(config, tmp_path / "whole")
    # Read before the next run: of two programs that are on their way over the same
    # eight devices, each may wait for the other's.
    state = digest(whole.state)
    for stop in STOPS:
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, stop)
            stopped = train_and_evaluate(config, tmp_path / "stopped")
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, stop)
    with noted_batches() as batches:
        result = train_and_evaluate(config, tmp_path / "stopped")
    assert sorted(batches) == [0, *range(STOPS[-1], STEPS)]
    assert all(expected[step] == x for step, x in batches.items())
    assert digest(result.state) == state
    assert timeless(tmp_path / "stopped") == timeless(tmp_path / "whole")
