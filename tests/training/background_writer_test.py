import importlib.util
import math
import subprocess
import sys
import threading
import time
import types

import limits
import numpy as np
import processes
import pytest
import toy_job
from training_runs import lines

from etc_jax.training import background_writer
from etc_jax.training.errors import UserError
from etc_jax.training.reporting import tensorboard, weights_and_biases
from etc_jax.training.run import train_and_evaluate

CONFIG = toy_job.config(train__tensorboard=True, train__wandb_project="toys")


class Writer:
    """Stands in for tensorboardX.SummaryWriter."""

    def __init__(self, logdir, *, purge_step=None):
        self.logdir, self.purge_step = logdir, purge_step
        self.scalars, self.closed = [], False
        made.append(self)

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed = True


made: list[Writer] = []


@pytest.fixture
def package(monkeypatch):
    made.clear()
    fake = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "tensorboardX", fake)


def test_finite_numbers_become_events(package, tmp_path):
    board = tensorboard.writer(CONFIG, tmp_path, resume_step=4)
    board.write(
        "train", 5, {"loss": 1.5, "bad": math.nan, "n": np.float32(2), "s": "x"}
    )
    board.write("eval", 6, {"loss": 1})
    board.close()
    (writer,) = made
    assert writer.scalars == [
        ("train/loss", 1.5, 5),
        ("train/n", 2, 5),
        ("eval/loss", 1, 6),
    ]
    assert writer.logdir == str(tmp_path / "tensorboard")
    assert writer.purge_step == 5 and writer.closed


def test_a_run_writes_what_its_lines_have(package, tmp_path):
    train_and_evaluate(toy_job.config(train__tensorboard=True), tmp_path)
    (writer,) = made
    assert writer.logdir == str(tmp_path / "tensorboard")
    assert writer.purge_step == 1 and writer.closed
    events = {(tag, step): value for tag, value, step in writer.scalars}
    for line in lines(tmp_path):
        assert events[f"{line['kind']}/loss", line["step"]] == line["loss"]
    assert ("train/grad_norm", 12) in events


def test_without_the_package_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"\[tensorboard\]"):
        tensorboard.check(CONFIG)


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboardX") is None,
    reason="tensorboardX is not installed (extra: tensorboard)",
)
def test_the_real_package_writes_a_file(tmp_path):
    board = tensorboard.writer(CONFIG, tmp_path)
    board.write("train", 1, {"loss": 1.5})
    board.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert file.stat().st_size > 0


def broken_at(monkeypatch, place):
    """A package whose `place` fails as on a full disk, or never returns."""
    forever.clear()

    def fails(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    def hangs(self, *args, **kwargs):
        forever.wait(limits.SECS)

    monkeypatch.setattr(Writer, place, hangs if place == "add_scalar" else fails)


forever = threading.Event()


@pytest.mark.parametrize("place", ["__init__", "flush", "close", "add_scalar"])
def test_a_writer_that_fails_or_hangs_does_not_stop_training(
    package, tmp_path, monkeypatch, caplog, place
):
    monkeypatch.setattr(background_writer, "MOST_WAITING", 3)
    monkeypatch.setattr(background_writer, "CLOSE_SECS", 0.5)
    broken_at(monkeypatch, place)
    board = tensorboard.writer(CONFIG, tmp_path)
    if place in ("__init__", "flush"):
        board.write("train", 1, {"loss": 1})
        board._thread.join(10)
    began = time.monotonic()
    for step in range(2, 9):
        board.write("train", step, {"loss": 1})
        time.sleep(0.01)
    board.close()
    forever.set()
    assert time.monotonic() - began < limits.SECS / 2  # as long as a write hangs
    assert "TensorBoard HAS FAILED" in caplog.text or "TAKES NO REP" in caplog.text
    if place != "close":
        assert board.lost_reports >= 3
        assert f"{board.lost_reports} reports for TensorBoard are lost" in caplog.text


def program(text, folder, **environ):
    return subprocess.run(
        [sys.executable, "-c", text, str(folder)],
        env={**processes.clean_environment(), **environ},
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )


FULL = """
import resource, sys
from etc_jax.training import background_writer
from etc_jax.training.reporting import tensorboard
background_writer.CLOSE_SECS = 0.5
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))  # as if the disk were so small
board = tensorboard.writer(None, sys.argv[1])
for step in range(1, 400):
    board.write("train", step, {"loss": 1.0})
board.close()
print(board.lost_reports)
"""


def test_the_real_package_on_a_full_disk(tmp_path):
    """Its own thread dies, and its queue is then never taken from."""
    pytest.importorskip("tensorboardX")
    got = program(FULL, tmp_path)
    assert got.returncode == 0, got.stderr
    assert int(got.stdout) > 100 and "TensorBoard TAKES NO REPORTS" in got.stderr


def test_without_wandb_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[wandb\]'"):
        weights_and_biases.check(CONFIG)
    assert not weights_and_biases.check(toy_job.config())


OFFLINE = """
import pathlib, sys
import toy_job
from etc_jax.training.reporting import weights_and_biases
config = toy_job.config(train__wandb_project="toys")
assert weights_and_biases.check(config)
for step, loss in ((4, 1.5), (2, 2.5)):  # resumed from an earlier step
    run = weights_and_biases.writer(config, sys.argv[1])
    run.write("train", step, {"loss": loss})
    run.close()
    assert not run.lost_reports
"""


@pytest.mark.torch
def test_the_real_wandb_keeps_a_run_offline(tmp_path):
    got = program(OFFLINE, tmp_path, WANDB_MODE="offline")
    assert got.returncode == 0, got.stderr
    name = (tmp_path / "wandb_id.txt").read_text().encode()
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    for path, loss in zip(files, (b"1.5", b"2.5"), strict=True):
        kept = path.read_bytes()
        assert name in kept and b"toys" in kept and b"learning_rate" in kept
        assert b"train/loss" in kept and loss in kept


@pytest.mark.torch
def test_no_account_is_one_clear_error_before_anything_starts(tmp_path):
    environ = {"HOME": str(tmp_path), "WANDB_MODE": "online", "WANDB_API_KEY": ""}
    got = program(OFFLINE, tmp_path, **environ)
    assert "run: wandb login, or set WANDB_MODE=offline" in got.stderr
