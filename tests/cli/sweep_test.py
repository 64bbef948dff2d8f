import json
import os
import pathlib
import shlex
import signal
import statistics

import limits
import programs
import pytest
import training_runs
from etils import epath
from processes import clean_environment

from etc_jax.cli import sweep
from etc_jax.training.checkpoints.folder import CheckpointFolder

CONFIG = """
import toy_job
from etc_jax import recipes

SETTING = recipes.FinetuningRecipe(
    "toy_bigram", num_examples=80, epochs=1, batch_size=8, learning_rate=0.01
)
LAMB_SWEEP = [recipes.FinetuningRecipe("x", 80, 1, 8, 0.01, optimizer="lamb_bert")]


def get_sweep(arg):
    epochs = (1, 2, 3) if arg == "more" else (1, 2)
    return recipes.sweep(SETTING, learning_rate=(0.01, 0.1), epochs=epochs)


def get_config(arg=""):
    config = toy_job.config_dict(train__num_steps=6, train__eval_every_steps=3)
    config.checkpoint.update(every_steps=3, keep=1, keep_best=1)
    if arg == "fault=yes":
        config.model.update(poison_from=2, poison_to=9)
        config.train.max_nonfinite_steps = 2
    return config
"""


@pytest.fixture
def swept(tmp_path):
    """Runs the command; gives its `CompletedProcess`."""
    (tmp_path / "toy.py").write_text(CONFIG)

    def run(*flags, config="toy.py", begin=programs.run, **options):
        argv = (f"--config={config}", "--workdir=sweep", *flags)
        environ = clean_environment()
        command = ("etc_jax.cli.sweep", *argv)
        return begin(*command, cwd=tmp_path, environ=environ, **options)

    return run


def plan(printed: str) -> dict[str, list[str]]:
    """{name: words of the command} of what --plan prints."""
    lines = printed.splitlines()
    names = [line.removesuffix(": not begun") for line in lines[::2]]
    return dict(zip(names, map(shlex.split, lines[1::2]), strict=True))


def test_a_plan_is_the_grid_of_the_config_and_trains_nothing(swept, tmp_path):
    got = swept("--plan", "--config.train.log_every_steps=5")
    assert got.returncode == 0, got.stderr
    rates, epochs = ("0.01", "0.1"), ("1", "2")
    runs = plan(got.stdout)
    assert list(runs) == [
        f"epochs={n}_learning_rate={rate}" for rate in rates for n in epochs
    ]
    assert runs["epochs=2_learning_rate=0.1"] == [
        *("etc-jax", "train", "--config=toy.py", "--config.train.log_every_steps=5"),
        *("--config.optimizer.name=adamw_bert", "--config.optimizer.learning_rate=0.1"),
        *("--config.train.num_steps=20", "--config.schedule.warmup_steps=0.1"),
        "--workdir=sweep/epochs=2_learning_rate=0.1",
    ]
    assert len(plan(swept("--plan", config="toy.py:more").stdout)) == 6
    some = plan(swept("--plan", "--only=*=0.1,epochs=1*").stdout)
    assert set(runs) - set(some) == {"epochs=2_learning_rate=0.01"}
    (lamb,) = plan(swept("--plan", "--sweep=LAMB_SWEEP").stdout).values()
    assert "--config.optimizer.name=lamb_bert" in lamb
    assert not (tmp_path / "sweep").exists()


def test_a_grid_of_one_s_own_has_fields_arguments_and_seeds(swept):
    grid = ("--grid.optimizer.learning_rate=1e-3,0.001,3e-3", "--grid.fault=no,yes")
    got = swept("--plan", *grid, "--seeds=0,1")
    assert "learning_rate=0.001_fault=no_seed=0 is in the sweep twice" in got.stderr
    grid = ("--grid.mesh.data=1", "--grid.train.wandb_project=a/b,None", *grid[1:])
    runs = plan(swept("--plan", *grid, "--seeds=0,1").stdout)
    assert len(runs) == 8
    words = runs["data=1_wandb_project=a-b-c14cdd_fault=yes_seed=1"]
    assert words[2:6] == [
        *("--config=toy.py:fault=yes", "--config.mesh.data=1"),
        *("--config.train.wandb_project=a/b", "--config.train.seed=1"),
    ]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--grid.train.sed=1,2"], "sed=1: --config: no field 'train.sed'"),
        (["--grid.train.seed=0,-1"], "seed=-1: 1 error in the config:\n  train.seed:"),
        (["--grid.train.seed="], "--grid.train.seed=: write --grid.FIELD=VALUE,VALUE"),
        (["--grid.train.seed=1", "--grid.train.seed=2"], "VALUE, once a field"),
        (["--grid.train.seed=1", "--seeds=2"], "train.seed is given, but the sweep"),
        (["--config.train.num_steps=9"], "train.num_steps is given, but the sweep"),
        (["--seeds=0,x"], "must be like 0,1,2, got '0,x'"),
        (["--sweep=SWEEP"], "toy.py has no SWEEP; give settings with --grid.FIELD="),
        (["--sweep=X", "--grid.train.seed=1"], "both give settings; leave one out"),
        (["--only=epochs"], "--only: no run 'epochs'"),
        (["--workdir="], "--config and --workdir are needed"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_trained(
    swept, tmp_path, flags, message
):
    got = swept(*flags)
    assert got.returncode == 2 and message in got.stderr and "Traceb" not in got.stderr
    assert not (tmp_path / "sweep").exists()


def test_a_run_that_fails_is_named_and_the_others_are_ranked(swept, tmp_path):
    grid = ("--grid.fault=yes,no", "--seeds=0,1")
    got = swept(*grid)
    assert got.returncode == sweep.RUN_FAILED, got.stderr
    record = json.loads((tmp_path / "sweep/sweep.json").read_text())
    good = [f"fault=no_seed={seed}" for seed in (0, 1)]
    evaluated = {
        name: training_runs.lines(tmp_path / "sweep" / name, "eval") for name in good
    }
    best = {name: min(x["loss"] for x in lines) for name, lines in evaluated.items()}
    ranked = sorted(good, key=best.get)
    assert [row["name"] for row in record["runs"][:2]] == ranked
    assert [row["value"] for row in record["runs"][:2]] == sorted(best.values())
    assert [row["state"] for row in record["runs"]] == ["finished"] * 2 + ["failed"] * 2
    mean, bad = record["over_seeds"]
    assert mean["value"] == pytest.approx(statistics.mean(best.values()))
    spread = abs(best[good[0]] - best[good[1]]) / 2**0.5
    assert mean["standard_deviation"] == pytest.approx(spread)
    assert (bad["settings"], bad["value"], bad["seeds"]) == ({"fault": "yes"}, None, 2)
    assert record["best"] == ranked[0]
    error = "Failed: fault=yes_seed=1: exit code 3: etc-jax train: 2 updates in a row"
    text = (tmp_path / "sweep/sweep.md").read_text()
    assert got.stdout == text and error in text
    assert "2 of 4 runs are finished, 2 failed" in text
    assert f"The best is step 6 of sweep/{ranked[0]}" in text
    check_the_same_command_goes_on(swept, grid, good)


def check_the_same_command_goes_on(swept, grid, good):
    """What is finished is left, what failed is tried again, another config refused."""
    again = swept(*grid, f"--only={good[0]},fault=yes_seed=0")
    assert again.returncode == sweep.RUN_FAILED
    assert f"run 2 of 2, {good[0]}: finished already" in again.stderr
    assert "run 1 of 2, fault=yes_seed=0: starts" in again.stderr
    other = swept(*grid, "--config.optimizer.learning_rate=0.2")
    assert other.returncode == 2 and "starts" not in other.stderr
    assert "optimizer.learning_rate: 0.01 there, 0.2 now" in other.stderr


@pytest.mark.full
def test_a_sweep_that_was_stopped_or_killed_goes_on_where_it_was(swept, tmp_path):
    flags = ("--grid.optimizer.learning_rate=0.01,0.1", "--config.train.num_steps=60")
    flags += ("--config.checkpoint.every_steps=1", "--config.train.eval_every_steps=1")
    first, second = (
        tmp_path / "sweep" / f"learning_rate={rate}" for rate in ("0.01", "0.1")
    )

    def stopped(number, run: pathlib.Path) -> int:
        """The exit code of a sweep that gets a signal within a run."""
        printed = tmp_path / "printed"
        program = swept(*flags, begin=programs.start, stdout=printed)
        checkpoints = CheckpointFolder(epath.Path(run))

        def is_there() -> bool:
            assert program.poll() is None, printed.read_text()
            return bool(checkpoints.finished())

        try:
            limits.until(is_there)
            owner = json.loads((run / "owner.json").read_text())["pid"]
            program.send_signal(number)
            code = program.wait(limits.SECS)
            limits.until(lambda: not programs.is_running(owner))
        finally:
            program.kill()
        return code

    assert stopped(signal.SIGTERM, first) == 17
    saved = max(int(p.name) for p in (first / "checkpoints").iterdir())
    assert 0 < saved < 60
    assert stopped(signal.SIGKILL, second) == -signal.SIGKILL
    done = os.stat(first / "metrics.jsonl").st_mtime_ns
    got = swept(*flags)
    assert got.returncode == 0, got.stderr
    assert f"continuing from step {saved}" in (first / "log.txt").read_text()
    assert "continuing from step" in (second / "log.txt").read_text()
    assert os.stat(first / "metrics.jsonl").st_mtime_ns == done
    for run in (first, second):
        steps = [line["step"] for line in training_runs.lines(run, "train")]
        assert steps == list(range(1, 61))
    assert "2 of 2 runs are finished" in got.stdout
