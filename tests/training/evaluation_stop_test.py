"""A signal within an evaluation is answered at once, and the evaluation made up."""

import shutil
import time

import pytest
import toy_job
from checkpoint_states import kept
from etils import epath
from training_runs import change_batches, lines, signal_self, timeless

from etc_jax.training import errors, run as run_lib
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.evaluation import Evaluator
from etc_jax.training.loop import Run
from etc_jax.training.run import train_and_evaluate


@pytest.fixture(autouse=True)
def long_evaluations(monkeypatch):
    monkeypatch.setattr(toy_job, "EVAL_BATCHES", 40)


def config_of(every_steps):
    changes = {"checkpoint__every_steps": every_steps}
    if every_steps == 6:  # that of evaluations
        changes |= {"checkpoint__keep_best": 1, "checkpoint__best_metric": "loss"}
    return toy_job.config(**changes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(workdir, result) of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_job, "EVAL_BATCHES", 40)
        return folder, train_and_evaluate(config_of(6), folder)


@pytest.fixture(scope="module")
def whole(finished):
    """The metrics of an uninterrupted run."""
    return timeless(finished[0])


def during_evaluation(monkeypatch, number, act):
    """Calls `act` while the evaluation `number`, from 0, is at its fourth batch."""
    evaluations = iter(range(99))

    def change(step, batch):
        if step == 10**6 + 3 and next(evaluations) == number:
            act()
        return batch

    change_batches(monkeypatch, change)


# Evaluations are at 6 and 12. Where no checkpoint is due, the signal makes one.
@pytest.mark.parametrize("every_steps, steps", [(4, (6,)), (6, (6, 12))])
@pytest.mark.full(but=["6-steps1"])
def test_a_signal_within_an_evaluation_cuts_it_off(
    whole, tmp_path, monkeypatch, caplog, every_steps, steps
):
    config = config_of(every_steps)
    for step in steps:
        with monkeypatch.context() as patch:
            during_evaluation(patch, step // 6 - 1, signal_self)
            stopped = train_and_evaluate(config, tmp_path)
        assert (stopped.exit_code, stopped.step) == (errors.PREEMPTED, step)
        assert f"the evaluation of step {step} is cut off" in caplog.text
        assert str(step) in kept(tmp_path)
        assert [x["step"] for x in lines(tmp_path, "eval")] == [6] * (step == 12)
    result = train_and_evaluate(config, tmp_path)
    assert result.exit_code == errors.DONE
    assert timeless(tmp_path) == whole
    evaluated = [n for n in kept(tmp_path) if int(n) % 6 == 0]
    folder = CheckpointFolder(epath.Path(tmp_path))
    for name in evaluated:
        assert folder.evaluation(int(name))["loss"] > 0


class Killed(BaseException):
    """As if the process ended here."""


def test_nothing_is_lost_by_a_death_within_an_evaluation(whole, tmp_path, monkeypatch):
    config, call = config_of(6), Evaluator.__call__
    for step in (6, 12):
        count = iter(range(1, 9))

        def evaluate(evaluator, params, should_stop, step=step, count=count):
            if next(count) == step // 6:
                raise Killed
            return call(evaluator, params, should_stop=should_stop)

        with monkeypatch.context() as patch:
            patch.setattr(Evaluator, "__call__", evaluate)
            with pytest.raises(Killed):
                train_and_evaluate(config, tmp_path)
        assert str(step) in kept(tmp_path)  # saved before the evaluation
    train_and_evaluate(config, tmp_path)
    assert timeless(tmp_path) == whole


@pytest.mark.full
def test_a_death_after_the_evaluation_doubles_no_line(whole, tmp_path, monkeypatch):
    """The line is there, but the checkpoint does not have the metrics yet."""
    config = config_of(6)

    def die(self, step, evaluation):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_lib.Checkpointer, "add_evaluation", die)
        with pytest.raises(Killed):
            train_and_evaluate(config, tmp_path)
    assert [x["step"] for x in lines(tmp_path, "eval")] == [6]
    train_and_evaluate(config, tmp_path)
    assert timeless(tmp_path) == whole


def test_a_finished_run_is_not_evaluated_again(finished, tmp_path, monkeypatch):
    folder, first = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(Evaluator, "__call__", lambda *args, **kw: pytest.fail("again"))
    again = train_and_evaluate(config_of(6), tmp_path)
    assert again.evaluation == first.evaluation


def test_damaged_metrics_of_a_checkpoint_are_made_again(
    finished, whole, tmp_path, caplog
):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "checkpoints" / "12" / manifest.EVALUATION).write_text('{"evaluation')
    train_and_evaluate(config_of(6), tmp_path)
    assert timeless(tmp_path) == whole
    assert "is made again" in caplog.text


def test_a_slow_evaluation_answers_within_two_batches(tmp_path, monkeypatch):
    """With 40 batches of 0.2 s the signal comes in the middle."""
    sent = []

    def act():
        sent.append(time.monotonic())
        signal_self()

    during_evaluation(monkeypatch, 0, act)

    def slow(step, batch):
        time.sleep(0.2 * (step > 10**6))
        return batch

    change_batches(monkeypatch, slow)
    ended = []
    preempted = Run._preempted
    monkeypatch.setattr(
        Run, "_preempted", lambda run: ended.append(time.monotonic()) or preempted(run)
    )
    train_and_evaluate(config_of(6), tmp_path)
    secs = ended[0] - sent[0]
    print(f"an evaluation of 8 s was left {secs:.2f} s after the signal")
    assert secs < 4
