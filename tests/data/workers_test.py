"""Batches from other processes: the same ones, in order, whatever happens to them."""

import dataclasses
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time

import limits
import numpy as np
import programs
import pytest
from random_params import assert_equal
from toy_text import make_cache, make_plan, make_reader

from etc_jax.data import workers
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.workers import WorkerReader, dumps

SIZES = PretrainingSizes(256, 40, 64, 64, 8)


def mapped(cache, folder):
    """The cache with its arrays mapped from files, as `TokenCache.open` has them."""
    arrays = {}
    for name in ("tokens", "word_bits", "sentence_offsets", "document_offsets"):
        np.save(folder / f"{name}.npy", getattr(cache, name))
        arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
    return dataclasses.replace(cache, **arrays)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    cache = mapped(make_cache(60, longest=60), tmp_path_factory.mktemp("cache"))
    return make_reader(cache, make_plan(cache), SIZES)


@pytest.fixture(scope="module")
def two_workers(reader):
    with WorkerReader(reader, num_workers=2) as made:
        yield made


def test_batches_are_those_of_the_reader_in_any_order(reader, two_workers):
    for step in (0, 1, 2, 3, 12, 13, 5, 5):
        assert_equal(two_workers.batch_at(step), reader.batch_at(step))


def test_rows_are_those_of_the_reader(reader, two_workers):
    all_rows = (slice(0, 4), slice(0, 4), [1, 6], np.array([2]), np.array([2]), None)
    for step, rows in enumerate(all_rows, 30):
        assert_equal(two_workers.batch_at(step, rows), reader.batch_at(step, rows))


def test_steps_ahead_are_built_meanwhile(reader, two_workers):
    two_workers.batch_at(20)
    steps = [step for step, _ in two_workers._pending]
    assert steps == [21, 22, 23, 24]
    limits.until(lambda: all(x.done() for _, x in two_workers._pending))


def test_an_error_is_raised_at_its_step_and_not_before(reader):
    source = reader._sources[0]
    evaluation = make_reader(source.cache, source.plan, SIZES, evaluation=True)
    last = evaluation.steps_per_epoch - 1
    with WorkerReader(evaluation, num_workers=1) as one:
        assert_equal(one.batch_at(last - 1), evaluation.batch_at(last - 1))
        assert_equal(one.batch_at(last), evaluation.batch_at(last))
        with pytest.raises(IndexError, match=f"no batch for step {last + 1}; expected"):
            one.batch_at(last + 1)
        assert_equal(one.batch_at(0), evaluation.batch_at(0))


@dataclasses.dataclass
class Fragile:
    """Dies at one step; otherwise tells its process."""

    dies_at: int = -1

    def batch_at(self, step, rows=None):
        if step == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"step": step, "process": os.getpid()}


def test_a_dead_worker_is_an_error_and_not_a_hang():
    began = time.monotonic()
    with WorkerReader(Fragile(dies_at=1), num_workers=1, ahead=1) as one:
        with pytest.raises(RuntimeError, match="died before step"):
            for step in range(2):
                one.batch_at(step)
    assert time.monotonic() - began < 30


def test_signals_to_all_processes_leave_the_next_batches_to_come():
    with WorkerReader(Fragile(), num_workers=1) as one:
        process = one.batch_at(0)["process"]
        os.kill(process, signal.SIGTERM)
        os.kill(process, signal.SIGINT)
        time.sleep(0.5)
        later = [one.batch_at(step) for step in range(1, 6)]
    assert [b["step"] for b in later] == [1, 2, 3, 4, 5]
    assert {b["process"] for b in later} == {process} != {os.getpid()}


LEFT_ALONE = """
import os, sys
from workers_test import Fragile
from etc_jax.data.workers import WorkerReader

if __name__ == "__main__":
    workers = WorkerReader(Fragile(), num_workers=1)
    print(workers.batch_at(0)["process"], flush=True)
    if sys.argv[1] == "wait":
        sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["wait", "go"])
def test_workers_end_with_a_parent_that_never_closed_them(tmp_path, end):
    script = tmp_path / "script.py"
    script.write_text(LEFT_ALONE)
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, str(script), end],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        worker = int(parent.stdout.readline())
        if end == "wait":
            assert programs.is_running(worker)
            parent.kill()
        else:
            assert parent.wait(timeout=limits.SECS) == 0
            assert parent.stderr.read() == ""
            assert not list(tmp_path.glob("etc_jax-workers-*"))
    limits.until(lambda: not programs.is_running(worker))


def test_large_arrays_travel_as_files(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "SHARED_BYTES", 1000)
    reader.batch_at(0)  # so that it has a permutation
    pickled = dumps(reader, tmp_path)
    source = reader._sources[0]
    assert len(pickled) < 10_000 < source.cache.tokens.nbytes
    again = pickle.loads(pickled)
    assert_equal(again.batch_at(3), reader.batch_at(3))
    copy = again._sources[0]
    for name in ("tokens", "sentence_offsets"):  # in the files where they were
        array = getattr(copy.cache, name)
        assert array.filename == getattr(source.cache, name).filename
    written = {pathlib.Path(p).name for p in os.listdir(tmp_path)}
    assert copy.plan.segment_offsets.filename.startswith(str(tmp_path))
    assert written and all(name.endswith(".npy") for name in written)


def test_a_part_of_a_mapped_array_is_that_part(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.arange(3000).reshape(3, 1000))
    whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    for part in (whole, whole[1:], whole[:, 5:9], whole.T):
        for least in (0, 10**9):
            monkeypatch.setattr(workers, "SHARED_BYTES", least)
            got = pickle.loads(dumps(part, tmp_path))
            np.testing.assert_array_equal(got, part)
            assert got.dtype == part.dtype


@pytest.mark.parametrize(
    "numbers, message",
    [
        ({"num_workers": 0}, "num_workers is 0, expected 1 or more"),
        ({"num_workers": 1, "ahead": 0}, "ahead is 0; expected 1 or more"),
    ],
)
def test_numbers_out_of_range_are_errors(reader, numbers, message):
    with pytest.raises(ValueError, match=message):
        WorkerReader(reader, **numbers)
