"""A run of no steps evaluates what it begins with."""

import json

import jax
import numpy as np
import pytest
import toy_job
from etils import epath
from training_runs import MESH, lines, plan_of, signal_self

from etc_jax.cli import sweep_table, train
from etc_jax.config import ConfigError
from etc_jax.training import errors, run as run_lib
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.errors import UserError
from etc_jax.training.evaluation import Evaluator
from etc_jax.training.preflight.device_memory import remedies
from etc_jax.training.preflight.dry_run import dry_run
from etc_jax.training.run import train_and_evaluate


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """(folder, result) of a run of 8 steps."""
    folder = tmp_path_factory.mktemp("source")
    return folder, train_and_evaluate(toy_job.config(train__num_steps=8), folder)


def alone(folder=None, **changes):
    init_from = {} if folder is None else {"checkpoint__init_from": str(folder)}
    return toy_job.config(train__num_steps=0, **init_from, **changes)


def no_evaluation(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("evaluated again")

    monkeypatch.setattr(Evaluator, "__call__", fail)


def files(folder):
    """The metrics of a run, and when each file of its checkpoints was written."""
    saved = (folder / "checkpoints").rglob("*")
    times = {path: path.stat().st_mtime_ns for path in saved if path.is_file()}
    return (folder / "metrics.jsonl").read_bytes(), times


def test_the_parameters_of_another_run_are_evaluated_and_saved(
    source, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        run_lib, "trace_step", lambda plan: pytest.fail("a training step is traced")
    )
    folder, trained = source
    result = train_and_evaluate(alone(folder), tmp_path)
    assert (result.exit_code, result.step) == (errors.DONE, 0)
    assert result.evaluation == trained.evaluation
    assert toy_job.digest(result.state.params) == toy_job.digest(trained.state.params)
    assert jax.tree.leaves(result.state.opt_state) == []
    [line] = lines(tmp_path)
    assert (line["kind"], line["step"]) == ("eval", 0)
    assert {k: line[k] for k in result.evaluation} == result.evaluation
    assert set(line) >= {"eval_secs", "wall_secs", "loss", "tokens"}
    assert json.loads((tmp_path / "final_report.json").read_text()) == result.report
    saved = CheckpointFolder(epath.Path(tmp_path))
    assert saved.finished() == [0] and saved.evaluation(0) == result.evaluation


@pytest.mark.parametrize("mesh", [{}, MESH])
@pytest.mark.full(but=["mesh1*"])
def test_new_parameters_are_evaluated_as_by_a_plain_loop(tmp_path, mesh):
    config = alone(train__seed=3, **mesh)
    result = train_and_evaluate(config, tmp_path)
    model, rows = config.model, np.arange(config.train.batch_size)
    params = toy_job.init_params(model, run_lib._rngs(config)[0])
    losses = [
        toy_job.loss_fn(
            model, params, toy_job.rows_at(model, 10**6 + i, rows), None, True
        )["loss"]
        for i in range(toy_job.EVAL_BATCHES)
    ]
    mean = sum(float(x) for x, _ in losses) / sum(float(w) for _, w in losses)
    assert result.evaluation["loss"] == pytest.approx(mean, rel=1e-5)


def test_the_same_command_again_does_nothing(source, tmp_path, monkeypatch, caplog):
    config = alone(source[0])
    first = train_and_evaluate(config, tmp_path)
    before = files(tmp_path)
    no_evaluation(monkeypatch)
    with caplog.at_level("INFO"):
        again = train_and_evaluate(config, tmp_path)
    assert "the run is finished, at step 0" in caplog.text
    assert (again.exit_code, again.step) == (errors.DONE, 0)
    assert (again.evaluation, again.report) == (first.evaluation, first.report)
    assert files(tmp_path) == before


def test_a_run_begins_with_one_of_no_steps(source, tmp_path):
    train_and_evaluate(alone(source[0]), tmp_path / "evaluated")
    again = train_and_evaluate(alone(tmp_path / "evaluated"), tmp_path / "again")
    assert again.evaluation == source[1].evaluation


def test_an_evaluation_that_is_cut_off_is_made_up_for(source, tmp_path, monkeypatch):
    call = Evaluator.__call__

    def stopped(evaluator, params, should_stop):
        signal_self()
        return call(evaluator, params, should_stop=should_stop)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "__call__", stopped)
        result = train_and_evaluate(alone(source[0]), tmp_path)
    assert (result.exit_code, result.step) == (errors.PREEMPTED, 0)
    assert not (tmp_path / "metrics.jsonl").exists()
    result = train_and_evaluate(alone(source[0]), tmp_path)
    assert result.exit_code == errors.DONE
    assert result.evaluation == source[1].evaluation
    assert [line["step"] for line in lines(tmp_path, "eval")] == [0]


def test_an_evaluation_that_fails_ends_the_run(source, tmp_path, monkeypatch):
    """It is all that the run is for; the same command makes up for it."""

    def fail(*args, **kwargs):
        raise OSError("dev.json is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "__call__", fail)
        with pytest.raises(OSError, match="dev.json is gone"):
            train_and_evaluate(alone(source[0]), tmp_path)
    result = train_and_evaluate(alone(source[0]), tmp_path)
    assert result.evaluation == source[1].evaluation
    assert result.failed_evaluations == 0


def test_without_validation_data_it_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(toy_job, "EVAL_BATCHES", 0)
    with pytest.raises(UserError) as caught:
        train_and_evaluate(alone(source[0]), tmp_path)
    assert str(caught.value).startswith(
        "there is nothing to evaluate on: the job gives"
    )
    assert "raise data.validation_fraction" in str(caught.value)
    assert not [x for x in tmp_path.iterdir() if x.name != "owner.json"]


def test_what_is_of_steps_alone_does_not_matter_or_is_refused():
    assert alone(schedule__warmup_steps=500).schedule.warmup_steps == 500
    with pytest.raises(
        ConfigError, match="profile_start_step.*ends at .*num_steps = 0"
    ):
        alone(train__profile_start_step=0)


def test_a_dry_run_is_of_the_evaluation(monkeypatch, tmp_path):
    def flops(config):
        text = dry_run(config, compiles=False)
        [line] = [x for x in text.splitlines() if "FLOPs a step over all" in x]
        return text, float(line.split()[0])

    text, evaluated = flops(alone())
    trained_text, trained = flops(toy_job.config())
    # Forward, of the three products of an update.
    assert evaluated == pytest.approx(trained / 3, rel=1e-3)
    assert "none of which is learnt" in text and "Evaluation step: " in text
    assert "is learnt" not in trained_text and "\nStep: " in trained_text
    compiled = dry_run(alone(**MESH), tmp_path / "run")
    assert "optimizer state          0.0 MiB" in compiled
    assert not list(tmp_path.iterdir())


def test_what_would_need_less_memory_is_of_the_evaluation():
    plan = plan_of(alone(train__batch_size=16))
    advice = "\n".join(remedies(plan))
    assert "train.batch_size=8" in advice
    for other in ("accumulation_steps", "remat_policy", "shard_state"):
        assert other not in advice


def test_in_a_sweep_it_is_finished_at_step_0(source, tmp_path):
    config = alone(source[0])
    of_sweep = sweep_table.SweepRun({}, [], tmp_path, config)
    assert of_sweep.row()["state"] == "not begun"
    train_and_evaluate(config, tmp_path)
    row = of_sweep.row()
    assert (row["state"], row["best_step"]) == (sweep_table.FINISHED, 0)
    assert row["evaluation"] == source[1].evaluation
    assert "| 0 |" in sweep_table.write(tmp_path, "toy", [of_sweep], {})


def test_its_curves_are_drawn(source, tmp_path):
    pytest.importorskip("matplotlib")
    result = train_and_evaluate(alone(source[0]), tmp_path)
    train._close(alone(source[0]), str(tmp_path), result)
    assert (tmp_path / "curves.png").stat().st_size > 1000
