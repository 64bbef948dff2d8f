"""Pre-training in two microbatches, stopped and resumed: no bit is another."""

import pytest
from main_path import (  # noqa: F401
    DROPOUT,
    MESH,
    cache_dir_fixture,
    noted_batches,
    small_config,
)
from training_runs import check_stops

from etc_jax.base import registry

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


def test_stops_of_microbatches_change_no_bit(config, tmp_path):
    with noted_batches():
        check_stops(config, tmp_path, STOPS, at_every_step=False)
