"""A run outlives an evaluation that fails, and ends in words without its workdir."""

import dataclasses
import json
import pathlib
import shutil

import limits
import pytest
import toy_job
from training_runs import lines, timeless

from etc_jax.base import registry
from etc_jax.cli import train
from etc_jax.training import errors
from etc_jax.training.checkpoints.folder import _LAST
from etc_jax.training.evaluation import Evaluator
from etc_jax.training.reporting.metrics import MetricsWriter
from etc_jax.training.run import train_and_evaluate

# Saves at 4, 8 and 12, evaluates at 3, 6, 9 and 12.
CONFIG = toy_job.config(train__eval_every_steps=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(workdir, result) of a run in which nothing fails."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train_and_evaluate(CONFIG, folder)


def failing(monkeypatch, fails):
    """Makes the evaluations fail whose number, from 0, is in `fails`."""
    call, count = Evaluator.__call__, iter(range(99))

    def evaluate(evaluator, params, should_stop):
        if (number := next(count)) in fails:
            raise fails[number]
        return call(evaluator, params, should_stop=should_stop)

    monkeypatch.setattr(Evaluator, "__call__", evaluate)


def test_what_fails_is_counted_and_changes_nothing_else(
    whole, tmp_path, monkeypatch, caplog
):
    def report(params):
        raise ZeroDivisionError("no sentence")

    def make_job(*args):
        return dataclasses.replace(toy_job.make_job(*args), final_report=report)

    full = [RuntimeError("RESOURCE_EXHAUSTED: 7 GB") for _ in range(2)]
    with monkeypatch.context() as patch:
        failing(patch, {1: full[0], 2: full[1], 3: OSError("dev.json")})
        patch.setitem(registry._TABLES["objective"], toy_job.NAME, make_job)
        result = train_and_evaluate(CONFIG, tmp_path)
    assert (result.exit_code, result.failed_evaluations) == (errors.DONE, 4)
    assert result.report == {} and not (tmp_path / "final_report.json").exists()
    assert toy_job.digest(result.state) == toy_job.digest(whole[1].state)
    evaluated = {line["step"]: line for line in lines(tmp_path, "eval")}
    counts = {k: x.get("failed_evaluations") for k, x in evaluated.items()}
    assert counts == {3: None, 6: 1, 9: 2, 12: 3}
    assert "loss" in evaluated[3] and "loss" not in evaluated[6]
    assert lines(tmp_path, "train")[-1]["failed_evaluations"] == 2
    said = [x for x in caplog.records if " FAILED at step" in x.message]
    assert "EVALUATION FAILED at step 6: RuntimeError: RESOURCE" in said[0].message
    assert "FINAL REPORT FAILED at step 12: ZeroDivisionError" in said[3].message
    # The same fault has its traceback once.
    assert [bool(x.exc_info) for x in said] == [True, False, True, True]
    train._close(CONFIG, str(tmp_path), result)
    assert "4 evaluations failed" in caplog.records[-1].message
    # The same command makes up for what is missing at the last step.
    again = train_and_evaluate(CONFIG, tmp_path)
    assert (again.evaluation, again.report) == (whole[1].evaluation, whole[1].report)
    assert lines(tmp_path, "eval")[-1]["loss"] == again.evaluation["loss"]


def _emptied(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


GONE = {
    "renamed": lambda folder: folder.rename(folder.with_name("moved")),
    "emptied": _emptied,
}


def during(monkeypatch, step, act):
    """Calls `act` once, when the metrics of a step are written and nothing is saved."""
    write, waiting = MetricsWriter.write, [act]

    def write_and_act(self, kind, at, values):
        write(self, kind, at, values)
        if at == step and waiting:
            saved, note = (step - 1) // 4 * 4, self._file.path.with_name(_LAST)
            limits.until(
                lambda: note.exists() and json.loads(note.read_text())["step"] >= saved
            )
            waiting.pop()()

    monkeypatch.setattr(MetricsWriter, "write", write_and_act)


# 5: within the run; 12: before its last save.
@pytest.mark.parametrize("how, step", [("renamed", 5), ("emptied", 12)])
@pytest.mark.full(but=["emptied*"])
def test_a_run_without_its_workdir_ends_in_words(
    whole, tmp_path, monkeypatch, how, step
):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        during(patch, step, lambda: GONE[how](folder))
        with pytest.raises(errors.UserError, match="deleted, renamed or emptied while"):
            train_and_evaluate(CONFIG, folder)
    names = [x.name for x in folder.rglob("*")] if folder.exists() else []
    assert names == []
    if how == "renamed":
        folder = pathlib.Path(shutil.move(tmp_path / "moved", tmp_path / "elsewhere"))
        result = train_and_evaluate(CONFIG, folder)
        assert toy_job.digest(result.state) == toy_job.digest(whole[1].state)
        assert timeless(folder) == timeless(whole[0])
