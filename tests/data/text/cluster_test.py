"""Parts made by a cluster against those of one process, and what dies there."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading

import export_test
import limits
import processes
import pytest
from corpus_samples import make_documents
from multihop_samples import HOTPOT, tokenizer, write_json
from window_samples import contents

from etc_jax.base import child_process
from etc_jax.cli import prepare
from etc_jax.data import cluster
from etc_jax.data.parts import WorkerDiedError
from etc_jax.data.text import cache

pytestmark = pytest.mark.service


class Cluster(contextlib.ExitStack):
    """A scheduler and its workers, as processes of this machine."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder
        self._port = processes.free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"

    def _start(self, *command, **env):
        child = subprocess.Popen(
            child_process.tied([sys.executable, "-m", "dask", *command]),
            env=processes.clean_environment() | env,
            stderr=subprocess.DEVNULL,
        )
        self.callback(child.wait)
        self.callback(child.kill)
        return child

    def start_scheduler(self, **env):
        return self._start("scheduler", f"--port={self._port}", "--no-dashboard", **env)

    def start_workers(self, count):
        """Each with a process that starts it again when it dies."""
        words = f"--nworkers={count}", "--nthreads=1", "--no-dashboard"
        folder = f"--local-directory={self._folder}"
        return self._start("worker", self.address, *words, folder)

    def process_ids(self):
        import distributed  # not where these tests do not run

        with distributed.Client(self.address, set_as_default=False) as client:
            return list(client.run(os.getpid).values())


@pytest.fixture
def patient(tmp_path):
    """Two workers, all of whose deaths may be of one part, as on a slow machine."""
    with Cluster(tmp_path / "dask") as running:
        running.start_scheduler(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="10")
        running.start_workers(2)
        yield running


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two workers."""
    with Cluster(tmp_path_factory.mktemp("dask")) as running:
        running.start_scheduler()
        running.start_workers(2)
        yield running


@pytest.fixture
def build(trained):
    def build(path, documents=1, **kwargs):
        kwargs = {"split_fn": list, "part_chars": export_test.PART_CHARS} | kwargs
        return cache.build_cache(
            make_documents(120 * documents),
            trained,
            path,
            made_by=export_test.MADE_BY,
            **kwargs,
        )

    return build


@pytest.fixture
def wanted(build, tmp_path):
    return contents(build(tmp_path / "wanted").path)


@pytest.mark.parametrize("count", [1, 4])
def test_no_number_of_workers_changes_a_byte(build, wanted, tmp_path, count):
    with Cluster(tmp_path / "dask") as running:
        running.start_scheduler()
        running.start_workers(count)
        made = build(tmp_path / "made", workers=running.address)
    assert contents(made.path) == wanted


def test_workers_killed_at_any_time_change_nothing(build, tmp_path, patient):
    wanted = contents(build(tmp_path / "wanted", documents=20).path)
    rng, killed, stopped = random.Random(3), [], threading.Event()

    def kill():
        while len(killed) < 10 and not stopped.wait(rng.uniform(0, 0.5)):
            # Else nobody may live long enough to make a part.
            if len(running := patient.process_ids()) == 2:
                os.kill(rng.choice(running), signal.SIGKILL)
                killed.append(True)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        slow = {"split_fn": export_test.slow_lines, "workers": patient.address}
        made = build(tmp_path / "made", documents=20, **slow)
    finally:
        stopped.set()
        killer.join()
    assert len(killed) == 10
    assert contents(made.path) == wanted


def test_a_killed_scheduler_leaves_finished_parts(build, wanted, tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "made"
    slow = {"split_fn": export_test.slow_lines}
    with Cluster(tmp_path / "dask") as running:
        scheduler = running.start_scheduler()
        running.start_workers(2)

        def kill():
            limits.until(lambda: len(export_test.part_files(tmp_path)) > 3)
            scheduler.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(WorkerDiedError, match="ended; finished parts are kept"):
            build(path, workers=running.address, **slow)
        killer.join()
    assert len(export_test.part_files(tmp_path)) > 3
    assert contents(build(path, **slow).path) == wanted
    assert "finished parts taken over" in caplog.text


def test_an_error_of_a_worker_comes_through(build, tmp_path, two):
    with pytest.raises(ValueError, match="cannot split"):
        build(tmp_path / "c", workers=two.address, split_fn=export_test.fails)
    assert os.listdir(tmp_path) == []


def test_a_part_that_kills_every_worker_is_an_error(build, tmp_path, two):
    with pytest.raises(WorkerDiedError, match="of one part again and again"):
        build(
            tmp_path / "c", workers=two.address, split_fn=export_test.ends_the_process
        )


def test_a_worker_with_other_packages_is_refused(build, tmp_path, two, monkeypatch):
    versions = cluster._versions() | {"tokenizers": "0.1"}
    monkeypatch.setattr(cluster, "_versions", lambda: versions)
    with pytest.raises(ValueError, match="a worker has tokenizers .*, and 0.1 is what"):
        build(tmp_path / "c", workers=two.address)


def test_no_dask(build, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r'pip install "etc_jax\[cluster\]"'):
        build(tmp_path / "c", workers="tcp://127.0.0.1:8786")


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_nobody_at_an_address(build, tmp_path, monkeypatch, scheme):
    monkeypatch.setattr(cluster, "_CONNECT_SECS", 1.0)
    address = f"{scheme}://127.0.0.1:{processes.free_port()}"
    with pytest.raises(ValueError, match=f"answers at {address} .*; start one: dask"):
        build(tmp_path / "c", workers=address)
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("bucket")
def test_inputs_of_a_data_set(tmp_path, folder, two):
    tokenizer().save(tmp_path / "tokenizer.json")
    file = write_json(tmp_path, [HOTPOT | {"_id": str(i)} for i in range(9)])
    usual = "--task=hotpotqa", f"--tokenizer={tmp_path / 'tokenizer.json'}", str(file)
    cluster = f"--cluster={two.address}"
    outs = tmp_path / "here", tmp_path / "there", folder / "there"
    for out, more in zip(outs, ("--workers=0", cluster, cluster), strict=True):
        assert prepare.main([*usual, more, f"--out={out}"]) == 0
    here, there, stored = map(contents, outs)
    assert here == there == stored
