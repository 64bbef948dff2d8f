"""What the tests of whole runs share: what is read of them, how they are stopped."""

import contextlib
import json
import os
import signal

import pytest
import toy_job

from etc_jax.training import errors, run as run_lib
from etc_jax.training.loop import Run, Steps
from etc_jax.training.preflight import plan as plan_lib
from etc_jax.training.reporting.metrics import MetricsWriter, lines_of
from etc_jax.training.run import train_and_evaluate

MESH = {"mesh__data": 2, "mesh__fsdp": 2, "mesh__tensor": 2}

# Figures that depend on the clock.
TIMES = {
    "tokens_per_s",
    "data_wait_share",
    "checkpoint_share",
    "wall_secs",
    "eval_secs",
}


def lines(workdir, kind=None):
    """The metrics lines of one kind, or all."""
    found = [json.loads(line) for line in lines_of(workdir)]
    return [line for line in found if kind in (None, line["kind"])]


def losses(workdir):
    return {line["step"]: line["loss"] for line in lines(workdir, "train")}


def timeless(workdir):
    """All metrics lines, in order, without what depends on the clock."""
    return [
        {k: v for k, v in line.items() if k not in TIMES} for line in lines(workdir)
    ]


def plan_of(config, mesh=None, check_batches=1):
    """The plan of a run of the toy, on the mesh of its config or another."""
    mesh = mesh or plan_lib.mesh_for(config)
    job = toy_job.make_job(config, None)
    return plan_lib.make_plan(config, job, mesh, check_batches=check_batches)


# --- what happens within a run --------------------------------------------------------


def change_batches(monkeypatch, change_fn):
    """Batches of the toy are what `change_fn(step, batch)` makes of them."""
    make = toy_job.rows_at
    monkeypatch.setattr(
        toy_job, "rows_at", lambda c, step, rows: change_fn(step, make(c, step, rows))
    )


def after_each_step(monkeypatch, act):
    """Calls `act` with the run after each of its steps."""
    one_step = Run._one_step

    def step_and_act(run):
        one_step(run)
        act(run)

    monkeypatch.setattr(Run, "_one_step", step_and_act)


def signal_self(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def signal_at(monkeypatch, step, number=signal.SIGTERM):
    """Sends a signal to this process when the metrics of `step` are written."""
    write = MetricsWriter.write

    def write_and_signal(self, kind, at, values):
        write(self, kind, at, values)
        if at == step and kind == "train":
            signal_self(number)

    monkeypatch.setattr(MetricsWriter, "write", write_and_signal)


def stop_after(monkeypatch, step):
    """Sends SIGTERM to this process after `step`."""
    after_each_step(monkeypatch, lambda run: run._step == step and signal_self())


def note_digests(monkeypatch, digests: dict[int, str]):
    """Notes the digest of the state after every step."""

    def note(run):
        digests[run._step] = toy_job.digest(run._state)

    after_each_step(monkeypatch, note)


@contextlib.contextmanager
def compiled_once():
    """The programs of all runs inside are the same, and take most of their time."""
    compile_steps, compiled = run_lib._compile, []

    def compile_once(plan):
        if not compiled:
            compiled.append(compile_steps(plan))
        return compiled[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_lib, "_compile", compile_once)
        yield


def state_at_start(config, workdir):
    """The state that a run begins with; nothing is compiled or trained."""
    seen = []

    def stop_here(run):
        seen.append(run._state)
        raise errors.UserError("seen enough")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_lib, "_compile", lambda plan: Steps(None, None, None, 0.0))
        patch.setattr(Run, "to_the_end", stop_here)
        with pytest.raises(errors.UserError, match="seen enough"):
            train_and_evaluate(config, workdir)
    return seen[0]


def check_stops(config, folder, stops):
    """A run that is stopped after some steps is an uninterrupted one.

    Every bit of parameters and moments after each step, and every metric.

    Args:
      config: of the run.
      folder: the runs are in `whole` and `stopped` in it.
      stops: steps after which SIGTERM comes.

    Returns:
      The result of the uninterrupted run.
    """

    def run(name, digests, stop=None):
        with pytest.MonkeyPatch.context() as patch:
            note_digests(patch, digests)
            stop_after(patch, stop)
            return train_and_evaluate(config, folder / name)

    expected, found = {}, {}
    result = run("whole", expected)
    assert result.exit_code == errors.DONE
    for stop in stops:
        stopped = run("stopped", found, stop)
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, stop)
    last = run("stopped", found)
    assert last.exit_code == errors.DONE
    assert toy_job.digest(last.state) == toy_job.digest(result.state)
    assert found == expected and len(found) == config.train.num_steps
    assert timeless(folder / "stopped") == timeless(folder / "whole")
    return result
