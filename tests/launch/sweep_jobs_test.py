"""Runs of a sweep as jobs: names, what is left, the table at the end."""

import json
import shlex
import sys
from types import SimpleNamespace

import processes
import pytest

from etc_jax.launch import __main__ as launch, babysit, slices, sweep
from etc_jax.launch.backend import Backend, LaunchError, Phase, State
from etc_jax.launch.job import Job, Step

CONFIG = """
import toy_job

def get_config(arg=""):
    config = toy_job.config_dict(train__num_steps=6, train__eval_every_steps=3)
    config.checkpoint.update(every_steps=3, keep=1, keep_best=1)
    return config
"""
GRID = "--grid.optimizer.learning_rate=0.01,0.1,0.2"


class Here(Backend):
    """Runs a job on this machine, to its end, while it is started."""

    name = "here"
    add_flags = classmethod(lambda cls, parser: None)
    status = logs = stop = lambda self: []

    def start(self):
        script = f'"$@"; echo $? > {shlex.quote(self.path("code"))}'
        words = [sys.executable, "-m", "etc_jax", *self.job.command]
        return [Step("the run", ["sh", "-c", script, "sh", *words])]

    def state(self, run_fn):
        file = self.folder / "code"
        if not file.exists():
            return State(Phase.ABSENT)
        return State(Phase.ENDED, "", int(file.read_text()))


@pytest.fixture
def job(tmp_path):
    """A sweep of some runs."""
    (tmp_path / "toy.py").write_text(CONFIG)

    def make(*flags):
        command = ("sweep", f"--config={tmp_path}/toy.py", f"--workdir={tmp_path}/runs")
        return Job("s", (*command, *flags), slices.parse("h100:1"))

    return make


def test_each_run_is_a_job_whose_name_stays(job, tmp_path, capsys):
    few, more = (sweep.Sweep(job(f"{GRID}{x}")).jobs for x in ("", ",0.3"))
    assert [x.name for x in few] == [x.name for x in more][:3]
    assert len({x.name for x in more}) == 4 and all(len(x.name) == 8 for x in more)
    name = "learning_rate=0.1"
    folder = f"--workdir={tmp_path}/runs/{name}"
    assert few[1].command[0] == "train" and few[1].command[-1] == folder
    argv = ["slurm", "--name=s", "--hardware=h100:1", "--", *job(GRID).command]
    assert launch.main(argv) == 0
    text = capsys.readouterr().out
    assert f"launch: {few[1].name} is {name}: not begun" in text
    assert text.count("sbatch launched/s/s-") == 3


@pytest.mark.full
def test_nine_runs_killed_twice_are_each_trained_once(job, tmp_path, monkeypatch):
    for name, value in processes.clean_environment().items():
        monkeypatch.setenv(name, value)
    started = []

    def run(argv):
        if len(started) in (3, 7) and started[-1] != "killed":
            started.append("killed")
            raise KeyboardInterrupt
        started.append(argv[-1])
        return babysit.run(argv)

    command = job(GRID, "--seeds=0,1,2")
    for _ in range(3):
        runs = sweep.Sweep(command)
        jobs = [Here(x, SimpleNamespace(), tmp_path / x.name) for x in runs.jobs]
        for one in jobs:
            one.folder.mkdir(exist_ok=True)
        try:
            codes = babysit.babysit(jobs, run_fn=run, ended_fn=runs.ended, poll_secs=0)
        except KeyboardInterrupt:
            continue
    trained = [x for x in started if x != "killed"]
    assert codes == [0] * len(jobs) and len(jobs) < 9
    assert len(trained) == len(set(trained)) == 9
    assert not sweep.Sweep(command).jobs
    record = json.loads((tmp_path / "runs/sweep.json").read_text())
    assert [x["state"] for x in record["runs"]] == ["finished"] * 9
    assert sorted(x["seeds"] for x in record["over_seeds"]) == [3, 3, 3]
    for row in record["runs"]:
        reported = processes.metrics(tmp_path / "runs" / row["name"], "eval")
        (own,) = (x for x in reported if x["step"] == row["best_step"])
        assert row["evaluation"] == {name: own[name] for name in row["evaluation"]}
        assert row["value"] == own[record["metric"]]


def test_a_run_that_failed_stands_in_the_table(job, tmp_path):
    runs = sweep.Sweep(job(GRID))
    first, second, _ = (SimpleNamespace(job=x) for x in runs.jobs)
    runs.ended(first, 3)
    runs.ended(second, LaunchError("lost 3 times"))
    record = json.loads((tmp_path / "runs/sweep.json").read_text())
    errors = [row["error"] for row in record["runs"]]
    assert f"exit code 3; job {first.job.name}" in errors
    assert f"lost 3 times; job {second.job.name}" in errors
