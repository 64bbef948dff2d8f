"""Pre-training in two microbatches, stopped and resumed: no bit is another."""

import dataclasses
import os
import pathlib
import signal

import jax
import numpy as np
import pytest
from main_path import (  # noqa: F401
    DROPOUT,
    MESH,
    cache_dir_fixture,
    compile_cache_fixture,
    metrics,
    noted_batches,
    small_config,
)

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.training import errors
from etc_jax.training.loop import Run
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
# Quicker: tests/training/resume_test.py, on a toy; main_path_test.py, one stop.
pytestmark = pytest.mark.full

# The first step; between two reports; an epoch's edge; an evaluation; before the end.
STOPS = (1, 3, 5, 8, 9)
STEPS = 10


@dataclasses.dataclass(frozen=True)
class Microbatches:
    """A run of two microbatches a step, over more than an epoch."""

    config: config_lib.Config
    workdir: pathlib.Path
    state: dict[str, bytes]
    batches: dict[int, str]


def bits(state) -> dict[str, bytes]:
    flat = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(x).tobytes() for path, x in flat}


@pytest.fixture(scope="module")
def microbatches(cache_dir, compile_cache, tmp_path_factory):
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
    config = small_config(DROPOUT, MESH, compile_cache, changes)
    workdir = tmp_path_factory.mktemp("microbatches")
    with noted_batches() as batches:
        result = train_and_evaluate(config, workdir)
    return Microbatches(config, workdir, bits(result.state), batches)


def test_the_stops_have_an_epochs_edge_among_them(microbatches, tmp_path):
    job = registry.lookup("objective", microbatches.config.objective.name)
    per_epoch = job(microbatches.config, tmp_path).steps_per_epoch
    # An epoch ends within the step before the stop, or the step after it.
    assert any(abs(stop - per_epoch) < 1 for stop in STOPS), per_epoch


def test_stops_of_microbatches_change_no_bit(microbatches, tmp_path, monkeypatch):
    one_step = Run._one_step
    for stop in STOPS:

        def step_and_signal(self, stop=stop):
            one_step(self)
            if self._step == stop:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(Run, "_one_step", step_and_signal)
            stopped = train_and_evaluate(microbatches.config, tmp_path)
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, stop)
    with noted_batches() as batches:
        result = train_and_evaluate(microbatches.config, tmp_path)
    assert sorted(batches) == [0, *range(STOPS[-1], STEPS)]
    assert all(microbatches.batches[step] == x for step, x in batches.items())
    assert bits(result.state) == microbatches.state
    for kind in ("train", "eval"):
        for name in ("loss", "mlm_loss", "cpc_loss"):
            got, expected = (
                [(x["step"], x[name]) for x in metrics(folder, kind)]
                for folder in (tmp_path, microbatches.workdir)
            )
            assert got == expected
