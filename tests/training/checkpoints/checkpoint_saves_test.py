"""Saves that fail, or take long, do not harm the run or what was saved before."""

import gc
import logging
import os
import shutil
import subprocess
import threading

import jax
import limits
import pytest
import toy_job
from checkpoint_states import kept, restore, shapes_of, states_fixture  # noqa: F401
from jax._src import profiler
from training_runs import after_each_step, lines, signal_at

from etc_jax.training import errors
from etc_jax.training.checkpoints import checkpointer as checkpoint, folder, manifest
from etc_jax.training.checkpoints.checkpointer import Checkpointer, SaveError
from etc_jax.training.checkpoints.orbax_io import Writer
from etc_jax.training.run import train_and_evaluate

# Where a write fails, Orbax closes its event loop before the last callbacks of the
# writes beside it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. None:pytest.PytestUnraisableExceptionWarning"
)

FULL = OSError(28, "No space left on device")
CONFIG = toy_job.config()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(checkpoint, "LAST_SAVE_PAUSES_SECS", (0.0, 0.0, 0.0))


class Failing:
    """Stands before a function: calls for which `fails()` is true raise."""

    def __init__(self, monkeypatch, owner, name, fails, error=FULL):
        self.calls, real = 0, getattr(owner, name)

        def call(*args, **kwargs):
            self.calls += 1
            if not fails(self.calls):
                return real(*args, **kwargs)
            if name == "wait":  # Orbax gives errors out when it has ended
                real(*args, **kwargs)
            raise error

        monkeypatch.setattr(owner, name, call)


# Where a save can fail: while the caller waits, while Orbax writes, while files are
# listed.
PLACES = {
    "at once": (Writer, "start"),
    "while written": (Writer, "wait"),
    "while listed": (manifest, "write"),
    "while noted": (folder, "write_whole"),
}


def wait_for_failure(checkpointer, count):
    def failed():
        checkpointer.poll()
        return checkpointer.failed_saves >= count

    limits.until(failed, lambda: "no failure was noticed")


@pytest.mark.parametrize("place", PLACES)
def test_a_failed_save_is_named_and_the_next_one_works(
    tmp_path, states, monkeypatch, caplog, place
):
    with Checkpointer(tmp_path, keep=3) as checkpointer:
        checkpointer.save(states[2], {"step": 2}, step=2)
        assert checkpointer.wait()
        with monkeypatch.context() as patch:
            Failing(patch, *PLACES[place], fails=lambda call: True)
            checkpointer.save(states[4], {"step": 4}, step=4)
            wait_for_failure(checkpointer, 1)
        (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
        text = record.getMessage()
        assert "SAVE FAILED at step 4" in text and "No space left on device" in text
        assert "next save that is due tries again" in text
        assert "newest finished checkpoint is of step 2" in text
        assert kept(tmp_path) == ["2"]
        checkpointer.save(states[6], {"step": 6}, step=6)
        assert checkpointer.wait()
        assert checkpointer.failed_saves == 1
    assert kept(tmp_path) == ["2", "6"]
    assert toy_job.digest(restore(tmp_path).state) == toy_job.digest(states[6])


@pytest.mark.parametrize("place", PLACES)
def test_the_last_save_is_tried_again(tmp_path, states, monkeypatch, caplog, place):
    failing = Failing(monkeypatch, *PLACES[place], fails=lambda call: call < 3)
    with Checkpointer(tmp_path, keep=3) as checkpointer:
        checkpointer.save(states[2], {"step": 2}, step=2, last=True)
        assert checkpointer.last_step == 2
        assert checkpointer.failed_saves == 2
    assert failing.calls >= 3
    assert "attempt 2 of 4" in caplog.text and "attempt 3 of 4" in caplog.text
    assert toy_job.digest(restore(tmp_path).state) == toy_job.digest(states[2])


def test_a_last_save_that_never_works_ends_with_its_own_error(
    tmp_path, states, monkeypatch
):
    with Checkpointer(tmp_path, keep=3) as checkpointer:
        checkpointer.save(states[2], {"step": 2}, step=2)
        assert checkpointer.wait()
        Failing(monkeypatch, manifest, "write", fails=lambda call: True)
        with pytest.raises(SaveError) as caught:
            checkpointer.save(states[4], {"step": 4}, step=4, last=True)
    text = str(caught.value)
    assert "state of step 4 could not be saved" in text and "4 attempts" in text
    assert "No space left" in text and "finished checkpoint is of step 2" in text
    assert caught.value.exit_code not in (errors.DONE, errors.PREEMPTED)
    assert kept(tmp_path) == ["2"]
    assert restore(tmp_path).data == {"step": 2}


def test_closing_raises_what_nobody_has_heard_of(tmp_path, states, monkeypatch):
    Failing(monkeypatch, manifest, "write", fails=lambda call: True)
    with pytest.raises(SaveError, match="No checkpoint has been finished yet"):
        with Checkpointer(tmp_path, keep=1) as checkpointer:
            checkpointer.save(states[2], {}, step=2)


def test_an_error_of_the_run_is_not_replaced_by_one_of_the_save(
    tmp_path, states, monkeypatch, caplog
):
    Failing(monkeypatch, manifest, "write", fails=lambda call: True)
    with pytest.raises(ZeroDivisionError):
        with Checkpointer(tmp_path, keep=1) as checkpointer:
            checkpointer.save(states[2], {}, step=2)
            raise ZeroDivisionError
    assert "SAVE FAILED at step 2" in caplog.text


def test_a_bug_is_not_taken_for_a_full_disk(tmp_path, states, monkeypatch):
    error = KeyError("a bug")
    Failing(monkeypatch, manifest, "write", fails=lambda call: call == 1, error=error)
    with pytest.raises(KeyError, match="a bug"):
        with Checkpointer(tmp_path, keep=1) as checkpointer:
            checkpointer.save(states[2], {}, step=2)
            checkpointer.wait()


def test_old_checkpoints_that_cannot_be_deleted_do_not_fail_a_save(
    tmp_path, states, monkeypatch, caplog
):
    delete = checkpoint.CheckpointFolder._delete
    Failing(monkeypatch, checkpoint.CheckpointFolder, "_delete", lambda call: call < 2)
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        for step, state in states.items():
            checkpointer.save(state, {"step": step}, step=step)
            assert checkpointer.wait()
    assert delete is not checkpoint.CheckpointFolder._delete
    assert "old checkpoints" in caplog.text and checkpointer.failed_saves == 0
    assert kept(tmp_path) == ["6"]  # the last one has caught up


def test_only_copying_is_waited_for(tmp_path, states, monkeypatch):
    write, allowed = manifest.write, threading.Event()
    monkeypatch.setattr(manifest, "write", lambda f: allowed.wait(30) and write(f))
    with Checkpointer(tmp_path, keep=1) as checkpointer:
        checkpointer.save(states[2], {}, step=2)
        checkpointer.poll()
        assert checkpointer.last_step is None
        allowed.set()
        assert checkpointer.wait()
        assert checkpointer.last_step == 2


def test_a_run_goes_on_after_a_failed_save(tmp_path, monkeypatch, caplog):
    Failing(monkeypatch, manifest, "write", fails=lambda call: call == 2)

    def wait(run):
        if run._step == 10:  # or the toy is done before the disk
            wait_for_failure(run._checkpointer, 1)

    after_each_step(monkeypatch, wait)
    result = train_and_evaluate(CONFIG, tmp_path)
    assert (result.exit_code, result.step) == (errors.DONE, 12)
    assert "SAVE FAILED at step 8" in caplog.text
    assert kept(tmp_path) == ["12", "4"]
    counts = [line["failed_saves"] for line in lines(tmp_path, "train")]
    assert counts[:8] == [0] * 8 and counts[9:] == [1] * 3


def test_a_run_whose_last_save_fails_says_so(tmp_path, monkeypatch):
    Failing(monkeypatch, manifest, "write", fails=lambda call: call > 1)
    with pytest.raises(SaveError, match="state of step 12 .* of step 4"):
        train_and_evaluate(CONFIG, tmp_path)
    monkeypatch.undo()
    result = train_and_evaluate(CONFIG, tmp_path)
    assert (result.exit_code, result.step) == (errors.DONE, 12)


@pytest.mark.parametrize("step", [5, 8])  # 8: a save of its own has begun already
@pytest.mark.full(but=["5"])
def test_a_preempted_run_tries_its_last_save_again(tmp_path, monkeypatch, caplog, step):
    # The first save, of step 4, works.
    Failing(monkeypatch, manifest, "write", fails=lambda call: call in (2, 3))
    signal_at(monkeypatch, step)
    result = train_and_evaluate(CONFIG, tmp_path)
    assert (result.exit_code, result.step) == (errors.PREEMPTED, step)
    assert caplog.text.count(f"SAVE FAILED at step {step}") == 2
    assert kept(tmp_path) == ["4", str(step)]


def test_a_preempted_run_that_is_not_saved_does_not_say_it_is(tmp_path, monkeypatch):
    Failing(monkeypatch, manifest, "write", fails=lambda call: call > 1)
    signal_at(monkeypatch, 5)
    with pytest.raises(SaveError, match="state of step 5 .* of step 4"):
        train_and_evaluate(CONFIG, tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield folder
    # Lazily: what has failed may hold a file open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(small_disk, caplog):
    noise = jax.random.normal(jax.random.key(0), (512, 512))  # does not compress
    state = {"mlp": {"wi": {"kernel": noise}}}
    shapes = shapes_of(state)
    filler = small_disk / "filler"
    with Checkpointer(small_disk, keep=2) as checkpointer:
        checkpointer.save(state, {"step": 2}, step=2)
        assert checkpointer.wait()
        free = shutil.disk_usage(small_disk).free
        filler.write_bytes(bytes(free - 300_000))
        checkpointer.save(state, {"step": 4}, step=4)
        assert not checkpointer.wait()
        assert "SAVE FAILED at step 4" in caplog.text
        assert kept(small_disk) == ["2"]
        assert shutil.disk_usage(small_disk).free > 250_000
        assert manifest.verify(small_disk / "checkpoints" / "2") is None
        filler.unlink()
        checkpointer.save(jax.tree.map(lambda x: x + 1, state), {"step": 6}, step=6)
        assert checkpointer.wait()
    got = restore(small_disk, shapes)
    assert got.data == {"step": 6}
    expected = toy_job.digest(jax.tree.map(lambda x: x + 1, state))
    assert toy_job.digest(got.state) == expected


# What Orbax leaves open where it fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.full
def test_a_run_on_a_full_disk_goes_on(small_disk, caplog, monkeypatch):
    """The disk fills up after step 5 and has space again before the last save."""
    filler = small_disk / "filler"

    def fill(run):
        if run._step == 5:
            assert run._checkpointer.wait()
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError):
                while True:
                    file.write(bytes(4096))
        if run._step == 11:
            filler.unlink()

    after_each_step(monkeypatch, fill)
    full = toy_job.config(train__profile_start_step=6, train__profile_steps=2)
    result = train_and_evaluate(full, small_disk)
    assert (result.exit_code, result.step) == (errors.DONE, 12)
    assert "SAVE FAILED at step 8" in caplog.text
    assert [x["step"] for x in lines(small_disk, "train")] == list(range(1, 13))
    assert [x["step"] for x in lines(small_disk, "eval")] == [6, 12]
    assert kept(small_disk) == ["12", "4"]
    # A trace that could not be written is under way for ever otherwise.
    profiler._profile_state.reset()
    gc.collect()
