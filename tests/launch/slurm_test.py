"""Jobs of two processes in a real Slurm, by the command line."""

import os
import shlex
import signal
import subprocess
import sys

import limits
import processes
import pytest
import slurm_cluster
from training_runs import timeless

from etc_jax.launch import __main__ as launch, babysit
from etc_jax.launch.backend import Phase, State

pytestmark = pytest.mark.service

# With IN_TURN, a file, the second process begins when the first has ended.
ETC_JAX = f"""\
#!/bin/sh
if [ "$IN_TURN" ] && [ "$SLURM_PROCID" = 0 ]; then
  echo $$ > "$IN_TURN"
elif [ "$IN_TURN" ]; then
  until [ -s "$IN_TURN" ]; do sleep 0.1; done
  while [ -e "/proc/$(cat "$IN_TURN")" ]; do sleep 0.1; done
fi
exec {shlex.quote(sys.executable)} -m etc_jax "$@"
"""
STEPS = 400
CHANGES = (
    f"--config.train.num_steps={STEPS}",
    "--config.train.eval_every_steps=200",
    "--config.checkpoint.every_steps=50",
)


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    """Slurm, whose jobs find a program etc-jax."""
    folder = tmp_path_factory.mktemp("slurm")
    program = folder / "bin/etc-jax"
    program.parent.mkdir()
    program.write_text(ETC_JAX)
    program.chmod(0o755)
    with slurm_cluster.cluster(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        yield


class Job:
    """A job of two processes.

    Attributes:
      workdir: of its run.
    """

    def __init__(self, folder, *changes, **variables):
        self.workdir = folder / "run"
        environ = processes.clean_environment() | variables
        self._flags = ["--name=toy", "--hardware=h100:2"]
        self._flags += [f"--folder={folder / 'job of two'}"]
        self._flags += [
            f"--env={name}={environ[name]}"
            for name in ("PYTHONPATH", "JAX_PLATFORMS", "XLA_FLAGS", *variables)
        ]
        config = f"--config={processes.toy_config(folder)}"
        self._command = ["train", config, *changes, f"--workdir={self.workdir}"]

    def give(self, action, *flags):
        argv = ["slurm", action, *self._flags, *flags, "--", *self._command]
        assert launch.main(argv) == 0

    def state(self):
        argv = [*self._flags, "--", *self._command]
        return launch.recipe_of("slurm", argv)[0].state(babysit.run)

    def is_in(self, phase):
        """Waits until it is so far."""
        limits.until(lambda: self.state().phase is phase, self.state)

    def takes_steps(self, more=20):
        """Waits until it has written some more lines of metrics."""
        metrics = self.workdir / "metrics.jsonl"

        def lines():
            return metrics.read_text().count("\n") if metrics.exists() else 0

        wanted = lines() + more
        limits.until(lambda: lines() >= wanted, self.state)


def test_a_job_that_is_stopped_killed_and_run_again(tmp_path, capsys):
    """It ends as one that nothing has happened to, bit by bit."""
    job = Job(tmp_path, *CHANGES)
    assert job.state() == State(Phase.ABSENT)
    job.give("run")
    job.takes_steps()
    assert job.state() == State(Phase.RUNNING, "RUNNING")
    job.give("rerun")  # the one that runs saves meanwhile
    assert "singleton(unfulfilled)" in slurm_cluster.said("squeue", "--format=%E")
    assert job.state().phase is Phase.RUNNING
    limits.until(lambda: slurm_cluster.said("squeue", "--format=%T") == "RUNNING")
    job.takes_steps()
    job.give("stop")
    job.is_in(Phase.ENDED)
    assert job.state() == State(Phase.ENDED, "", 17)
    capsys.readouterr()
    job.give("logs")
    log = capsys.readouterr().out
    assert log.count("exit code 17 after 0 restarts") == 2, log

    job.give("run")
    job.takes_steps()
    number = slurm_cluster.said("squeue", "--format=%i")
    _, second = slurm_cluster.pids(number)
    os.kill(second, signal.SIGKILL)
    # Meanwhile, as the first notices by itself:
    with processes.start(
        tmp_path / "output",
        *CHANGES,
        config=processes.toy_config(tmp_path),
        workdir=tmp_path / "whole",
        devices=1,
    ) as whole:
        assert whole.wait() == [0, 0], whole.all_output()
    job.is_in(Phase.WAITING)
    job.give("status")
    assert "BeginTime" in capsys.readouterr().out
    # Slurm waits for two minutes before it starts a job again.
    again = ["scontrol", "update", f"JobId={number}", "StartTime=now"]
    subprocess.run(again, check=True)
    job.is_in(Phase.ENDED)
    assert job.state() == State(Phase.ENDED, "", 0)
    assert timeless(job.workdir) == timeless(tmp_path / "whole")
    assert processes.saved_steps(job.workdir)[-1] == STEPS
    job.give("logs")
    assert "exit code 0 after 1 restarts" in capsys.readouterr().out

    job.give("run", "--sbatch=--hold")
    assert job.state() == State(Phase.WAITING, "PENDING")
    job.give("stop")
    assert job.state() == State(Phase.ENDED, "stopped while it waited", 17)


def test_what_would_end_in_the_same_way_is_not_queued_again(tmp_path, capsys):
    """Also where one process is slower to find out."""
    job = Job(tmp_path, "--config.train.num_step=9", IN_TURN=str(tmp_path / "first"))
    job.give("run")
    job.is_in(Phase.RUNNING)
    limits.until(lambda: job.state().phase is not Phase.RUNNING)
    assert job.state() == State(Phase.ENDED, "", 2)
    job.give("logs")
    log = capsys.readouterr().out
    assert log.count("did you mean 'num_steps'?") == 2
    assert "exit code 2 after 0 restarts" in log
