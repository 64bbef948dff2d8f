"""Runs in an object store: bit by bit as on a disk, and nothing is lost."""

import json
import os
import random
import subprocess
import sys
import threading
import time

import finetuned_run
import limits
import object_store
import processes
import pytest
import toy_job
from training_runs import after_each_step, check_stops, state_at_start, timeless

import etc_jax
from etc_jax.base import stores
from etc_jax.cli import evaluate
from etc_jax.training import claim as claim_lib, workdir
from etc_jax.training.checkpoints import checkpointer, manifest, orbax_io
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.errors import DONE, PREEMPTED, RunError, UserError
from etc_jax.training.owner import FILE, owned
from etc_jax.training.reporting import curves, line_file
from etc_jax.training.reporting.line_file import LineFile
from etc_jax.training.run import train_and_evaluate

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("bucket")]

RUNS = "import sys, toy_job; toy_job.long_run(sys.argv[1])"


@pytest.fixture
def quick(monkeypatch):
    """Short waits."""
    monkeypatch.setattr(claim_lib, "REFRESH_SECS", 0.05)
    monkeypatch.setattr(claim_lib, "WATCH_SECS", 1.0)


def test_a_stopped_run_is_the_uninterrupted_one(folder, tmp_path):
    config = toy_job.config(checkpoint__keep=2)
    there = check_stops(config, folder, stops=(3, 7))
    here = train_and_evaluate(config, tmp_path)
    assert toy_job.digest(there.state) == toy_job.digest(here.state)
    assert timeless(folder / "whole") == timeless(tmp_path)
    same = {path.name for path in tmp_path.iterdir()}
    assert {path.name for path in (folder / "whole").iterdir()} == same
    steps = {path.name for path in (folder / "whole/checkpoints").iterdir()}
    assert steps == {path.name for path in (tmp_path / "checkpoints").iterdir()}
    curves.draw(folder / "whole")
    assert (folder / "whole" / curves.FILE).read_bytes().startswith(b"\x89PNG")
    again = train_and_evaluate(config, folder / "whole")  # evaluates nothing anew
    assert again.exit_code == DONE


def test_two_processes_share_a_run(folder, tmp_path):
    """Stopped by a signal to one of them, and as on a disk, bit by bit."""
    config, digests = processes.toy_config(tmp_path), []
    for number, run in enumerate((tmp_path / "run", folder)):
        for stop, code in (({"STOP": "1:5"}, PREEMPTED), ({}, DONE)):
            output = tmp_path / f"output_{number}_{code}"
            with processes.start(output, config=config, workdir=run, **stop) as started:
                assert started.wait() == [code] * 2, started.all_output()
        result = train_and_evaluate(toy_job.config(), run)
        assert result.exit_code == DONE
        digests.append(toy_job.digest(result.state))
    assert digests[0] == digests[1]
    assert timeless(folder) == timeless(tmp_path / "run")


def test_kill_9_at_any_time_loses_nothing(folder, tmp_path):
    whole = train_and_evaluate(toy_job.long_config(), tmp_path)
    rng = random.Random(3)
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", RUNS, os.fspath(folder)],
            env=processes.clean_environment() | os.environ,
        )
        limits.until((folder / claim_lib.FILE).exists)
        time.sleep(rng.uniform(3, 8))
        child.kill()
        child.wait()
        steps = [path for path in folder.glob("checkpoints/*") if manifest.exists(path)]
        assert all(manifest.verify(path) is None for path in steps)
    last = train_and_evaluate(toy_job.long_config(), folder)
    assert toy_job.digest(last.state) == toy_job.digest(whole.state)
    assert timeless(folder) == timeless(tmp_path)


def test_an_outage_of_some_seconds_ends_nothing(folder, tmp_path, monkeypatch):
    whole = train_and_evaluate(toy_job.config(), tmp_path)

    def break_off(run):
        if run._step == 4:  # a save has just begun
            object_store.outage.set()
            threading.Timer(10, object_store.outage.clear).start()

    after_each_step(monkeypatch, break_off)
    try:
        result = train_and_evaluate(toy_job.config(), folder)
    finally:
        object_store.outage.clear()
    assert result.exit_code == DONE
    assert toy_job.digest(result.state) == toy_job.digest(whole.state)
    assert timeless(folder) == timeless(tmp_path)
    assert CheckpointFolder(folder).finished() == [12, 8, 4]


def test_an_outage_for_good_loses_nothing_that_was_saved(folder, monkeypatch):
    from gcsfs import retry

    monkeypatch.setattr(orbax_io, "TIMEOUT_SECS", 10)
    # Else each call is tried again for half a minute.
    monkeypatch.setattr(retry, "min", lambda *secs: 0.1, raising=False)
    monkeypatch.setattr(checkpointer, "LAST_SAVE_PAUSES_SECS", (1.0,))

    def break_off(run):
        if run._step == 6:
            limits.until(lambda: manifest.exists(folder / "checkpoints/4"))
            object_store.outage.set()

    after_each_step(monkeypatch, break_off)
    try:
        with pytest.raises(RunError, match="the same command"):
            train_and_evaluate(toy_job.config(checkpoint__every_steps=4), folder)
    finally:
        object_store.outage.clear()
    monkeypatch.undo()
    assert CheckpointFolder(folder).choose() == 4


def test_a_damaged_checkpoint_is_set_aside(folder):
    config = toy_job.config(train__num_steps=4, checkpoint__every_steps=2)
    train_and_evaluate(config, folder)
    data = folder / "checkpoints/4/data/metadata"
    data.write_text(data.read_text().replace("4", "5", 1))
    with Checkpointer.from_config(config.checkpoint, folder) as saver:
        assert saver.last_step == 4
        assert saver._folder.choose() == 2
    (aside,) = (folder / "bad_checkpoints").iterdir()
    assert aside.name.startswith("4-") and manifest.exists(aside)
    assert not (folder / "checkpoints/4").exists()


def test_of_two_writers_one_is_refused(folder, quick):
    with owned(folder) as owner:
        with pytest.raises(UserError, match=f"in use by process {os.getpid()} "):
            with owned(folder):
                pytest.fail("two owners")
        time.sleep(0.3)  # it is written again
        owner.check()
    assert not (folder / FILE).exists()


def test_an_owner_that_slept_cannot_write_any_longer(folder, quick, monkeypatch):
    with owned(folder) as sleeper:
        monkeypatch.setattr(claim_lib, "_machine", lambda: "another machine")
        sleeper._renew, renew = lambda: None, sleeper._renew
        with owned(folder) as owner:
            sleeper._renew = renew
            limits.until(lambda: sleeper._lost)
            with pytest.raises(UserError, match="was taken over by process"):
                sleeper.check()
            time.sleep(0.2)
            owner.check()
        assert not (folder / FILE).exists()
    assert not (folder / FILE).exists()


def test_one_of_another_machine_that_writes_is_not_taken_over(
    folder, quick, monkeypatch
):
    with owned(folder):
        monkeypatch.setattr(claim_lib, "_machine", lambda: "another machine")
        with pytest.raises(UserError, match="is in use by"), owned(folder):
            pytest.fail("two owners")


def test_a_write_whose_answer_was_lost_is_known_again(folder, quick, monkeypatch):
    write, lost = stores.write, iter([True])

    def unanswered(*args, **options):
        generation = write(*args, **options)
        if next(lost, False):
            raise stores.Changed("412")
        return generation

    monkeypatch.setattr(stores, "write", unanswered)
    with owned(folder) as owner:
        written, generation = stores.read(folder / FILE)
        stores.write(folder / FILE, written, generation=generation)
        time.sleep(0.3)
        owner.check()
    assert not (folder / FILE).exists()


def test_a_run_whose_record_is_deleted_ends(folder, quick):
    config = toy_job.config()
    with workdir.claim(config, folder) as check_still:
        workdir.record(config, folder)
        check_still()
        (folder / "run.json").unlink()
        time.sleep(2 * claim_lib.REFRESH_SECS)
        with pytest.raises(UserError, match="was deleted, renamed or emptied"):
            check_still()


def test_lines_of_many_objects(folder, monkeypatch):
    monkeypatch.setattr(line_file, "MOST_BYTES", 100)
    wanted = [json.dumps({"step": n}).encode() for n in range(40)]
    for start in (0, 20):
        file = LineFile(folder / "metrics.jsonl")
        for line in wanted[start : start + 20]:
            file.append(line + b"\n")
    assert file.read().splitlines() == wanted
    assert len(file.parts()) > 4
    (folder / "metrics.jsonl.txt").write_text("of another")
    assert LineFile(folder / "metrics.jsonl").read().splitlines() == wanted


def test_a_model_there_answers_as_the_one_here(folder, tmp_path):
    made = finetuned_run.config("wikihop")
    file = finetuned_run.write(
        tmp_path / "dev.json", finetuned_run.records("wikihop", 4)
    )
    answers = []
    for run in (tmp_path / "run", folder):
        finetuned_run.save_run(run, made, (12, 14))
        for model in (run, run / "checkpoints/12"):
            out = tmp_path / f"scores{len(answers)}"
            assert evaluate.main([f"--model={model}", f"--out={out}", file]) == 0
            answers.append((out / "predictions.json").read_text())
    assert answers[:2] == answers[2:] and answers[0] != answers[1]
    with pytest.raises(ValueError, match="no finished checkpoint of step 13.*12, 14"):
        etc_jax.load(folder, step=13)
    finetuned_run.save_run(folder, made, (16,))  # the others go
    etc_jax.load(folder, step=16)
    with pytest.raises(ValueError, match="of step 12 .*; of: 16"):
        etc_jax.load(folder, step=12)
    with pytest.raises(ValueError, match="there is nothing below"):
        etc_jax.load(folder.parent / "nothing")


def test_a_run_starts_from_one_there(folder, tmp_path):
    config = toy_job.config(train__num_steps=4)
    states = []
    for start in (tmp_path / "start", folder):
        train_and_evaluate(config, start)
        changed = toy_job.config(checkpoint__init_from=os.fspath(start))
        run = tmp_path / f"run{len(states)}"
        states.append(toy_job.digest(state_at_start(changed, run)))
    assert states[0] == states[1]


@pytest.mark.parametrize(
    "address, changes, message",
    [
        ("gs://no-such-bucket/run", {}, "workdir gs://no-such-bucket/run cannot be"),
        ("gs://", {}, "expected gs://BUCKET/NAME"),
        ("gs:/bucket/run", {}, "expected gs://BUCKET/NAME"),
        ("s3://bucket/run", {}, "other stores and addresses cannot be used"),
        (
            "gs://bucket/run",
            {"train__profile_start_step": 2},
            "train.profile_start_step is 2, but --workdir is gs://bucket/run",
        ),
    ],
)
def test_one_error_and_nothing_is_written(
    address, changes, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        train_and_evaluate(toy_job.config(**changes), address)
    assert not list(tmp_path.iterdir())
    bucket = stores.absolute(f"gs://{object_store.BUCKET}/run")
    assert not bucket.exists()
