import importlib.util
import math
import sys
import types

import numpy as np
import pytest

from etc_jax.training import tensorboard
from etc_jax.training.errors import UserError
from etc_jax.training.tensorboard import TensorBoard


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
    board = TensorBoard(tmp_path, resume_step=4)
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


def test_without_the_package_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"\[tensorboard\]"):
        tensorboard.require()


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboardX") is None,
    reason="tensorboardX is not installed (extra: tensorboard)",
)
def test_the_real_package_writes_a_file(tmp_path):
    board = TensorBoard(tmp_path)
    board.write("train", 1, {"loss": 1.5})
    board.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert file.stat().st_size > 0
