"""How processes meet and part; whole runs of two are in tests/e2e."""

import itertools
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import processes
import programs
import pytest
from coordinator_store import Store

from etc_jax.training.errors import UserError
from etc_jax.training.hosts import distributed
from etc_jax.training.hosts.distributed import PeerError

# --- several processes, with threads and a dictionary in their places ---


class Rounds(threading.local):
    def __init__(self):
        self.count = itertools.count()

    def __next__(self):
        return next(self.count)


@pytest.fixture
def run_all(monkeypatch):
    """Runs fn(process) in as many threads; gives what each returned or raised."""
    store, own = Store(), threading.local()

    def run_all(fn, count=3, counts=None):
        monkeypatch.setattr(distributed, "_client", lambda: store)
        monkeypatch.setattr(distributed, "_rounds", Rounds())
        monkeypatch.setattr(distributed, "_index", lambda: own.index)
        monkeypatch.setattr(distributed, "_count", lambda: own.count)
        results = [None] * count

        def one(index):
            own.index, own.count = index, (counts or [count] * count)[index]
            try:
                results[index] = fn(index)
            except Exception as error:
                results[index] = error

        threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        return results

    return run_all


def test_values_are_exchanged_in_order(run_all):
    def two_rounds(process):
        first = list(distributed.exchange({"n": process}))
        return first, list(distributed.exchange(process**2))

    expected = ([{"n": 0}, {"n": 1}, {"n": 2}], [0, 1, 4])
    assert run_all(two_rounds) == [expected] * 3


def test_a_failure_of_one_is_a_failure_of_all(run_all):
    def station(process):
        if process == 1:
            raise UserError("the disk is full")
        return process

    first, second, third = run_all(lambda p: distributed.together(lambda: station(p)))
    assert type(second) is UserError
    for error in (first, third):
        assert isinstance(error, PeerError) and error.exit_code == 2
        assert str(error) == "process 1 cannot go on: UserError: the disk is full"


def test_an_unknown_failure_reaches_the_others_too(run_all):
    def station(process):
        if process == 0:
            raise KeyError("x")

    first, second = run_all(lambda p: distributed.together(lambda: station(p)), 2)
    assert type(first) is KeyError
    assert isinstance(second, PeerError) and second.exit_code == 1


def test_the_first_process_is_done_before_the_others_begin(run_all):
    events = []

    def work(process):
        if process == 0:
            time.sleep(0.1)
        events.append(process)
        return process * 10

    assert run_all(lambda p: distributed.in_turn(lambda: work(p))) == [0, 10, 20]
    assert events[0] == 0 and sorted(events) == [0, 1, 2]


def test_the_others_do_not_begin_when_the_first_fails(run_all):
    events = []

    def work(process):
        events.append(process)
        raise UserError("no such file")

    errors = run_all(lambda p: distributed.in_turn(lambda: work(p)), 2)
    assert events == [0]
    assert [type(error) for error in errors] == [UserError, PeerError]


def check(values):
    distributed.check_same("their config", values, advice="make them equal")


def test_equal_values_pass(run_all):
    assert run_all(lambda p: check({"a": [1, 2], "b": None})) == [None] * 3


def test_the_first_differences_are_named_on_all(run_all):
    values = [
        {f"f{i}": 0 for i in range(9)} | {"only": 1},
        {f"f{i}": 1 for i in range(9)},
    ]
    for error in run_all(lambda p: check(values[p]), 2):
        assert type(error) is UserError
        assert "differ in their config (10 values); make them equal" in str(error)
        assert "f0: 0 on process 0, 1 on process 1" in str(error)
        assert str(error).count(" on process 0") == 5 and "and 5 more" in str(error)


def test_nothing_and_absent_are_not_the_same(run_all):
    values = [{"a": None}, {}]
    for error in run_all(lambda p: check(values[p]), 2):
        assert "a: None on process 0, '(absent)' on process 1" in str(error)


def test_other_counts_of_processes_do_not_wait_for_each_other(run_all):
    for error in run_all(lambda p: check({}), 2, counts=[2, 3]):
        assert "number of processes: 2 on process 0, 3 on process 1" in str(error)


def test_one_process_agrees_with_itself():
    assert not distributed.several() and distributed.is_first()
    assert list(distributed.exchange({"a": 1})) == [{"a": 1}]
    assert distributed.together(lambda: 5) == distributed.in_turn(lambda: 5) == 5
    check({"a": 1})


# --- processes of their own ---

PROGRAM = """
import contextlib, os, sys, threading, time
from etc_jax.training.hosts import distributed
distributed.GRACE_SECS = distributed.ERROR_GRACE_SECS = 1.0
"""


def run_program(text: str, **variables: str) -> subprocess.CompletedProcess:
    return programs.run(
        "-c",
        PROGRAM + textwrap.dedent(text),
        environ={**processes.clean_environment(), **variables},
    )


LISTENS = """
def inodes():
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            yield os.readlink(f"/proc/self/fd/{name}")

def main():
    import jax
    assert not jax.distributed.is_initialized() and jax.process_count() == 1
    own = set(inodes())
    for name in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{name}"):
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in own:
                print(name, local.split(":")[0])
    return 5

sys.exit(distributed.run(main))
"""


# Each of these once started a coordinator, whose heartbeat ended a process (SIGABRT)
# that had been paused for half a minute.
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("source", ["nothing", "jax", "slurm", "launcher"])
def test_one_process_has_no_coordinator(source):
    address = f"127.0.0.1:{processes.free_port()}"
    explicit = {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": "1",
        "JAX_PROCESS_ID": "0",
    }
    mpi = {
        "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://127.0.0.1:34911",
        "OMPI_COMM_WORLD_SIZE": "1",
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }
    variables = {
        "nothing": {},
        "jax": mpi,
        "slurm": {"SLURM_NTASKS": "1"},
        "launcher": explicit,
    }
    got = run_program(LISTENS, **variables[source])
    assert got.returncode == 5, got.stderr
    assert got.stdout == ""  # it listens nowhere


@pytest.mark.full
def test_a_process_that_was_paused_goes_on(tmp_path):
    """As on a laptop that was asleep for longer than a heartbeat may be missing."""
    workdir = tmp_path / "run"
    with processes.start(
        tmp_path / "output",
        "--config.train.num_steps=1000000",
        config=processes.toy_config(tmp_path),
        workdir=workdir,
        each=((),),
        devices=1,
        variables=({},),
    ) as started:
        started.reaches(workdir, lines=3)
        (child,) = started.children
        child.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * distributed.HEARTBEAT_SECS)
        lines = len(processes.metrics(workdir, "train"))
        child.send_signal(signal.SIGCONT)
        started.reaches(workdir, lines=lines + 50)
        child.send_signal(signal.SIGTERM)
        assert started.wait() == [17], started.all_output()


@pytest.mark.parametrize("code", [0, 2, 17])
def test_a_thread_that_hangs_does_not_keep_the_process(code):
    began = time.monotonic()
    got = run_program(
        f"""
        threading.Thread(target=time.sleep, args=(600,)).start()
        sys.exit(distributed.run(lambda: {code}))
        """
    )
    assert got.returncode == code
    assert time.monotonic() - began < 300
    assert "has not ended within 1 s" in got.stderr


def test_what_a_failed_save_left_running_does_not_change_the_exit_code():
    """Orbax's thread waits for a folder that nobody makes, and aborts the process."""
    got = run_program(
        """
        waits = dict(target=time.sleep, args=(600,), name="array_type_handler")
        threading.Thread(**waits).start()
        sys.exit(distributed.run(lambda: 17))
        """
    )
    assert got.returncode == 17 and got.stderr == ""


def test_an_exception_is_shown_and_is_1():
    got = run_program("sys.exit(distributed.run(lambda: 1 / 0))")
    assert got.returncode == 1
    assert got.stderr.count("ZeroDivisionError") == 1


def test_a_device_that_was_touched_before_is_an_error():
    got = run_program(
        "import jax; jax.devices(); sys.exit(distributed.run(lambda: 0))",
        JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{processes.free_port()}",
        JAX_NUM_PROCESSES="2",
        JAX_PROCESS_ID="0",
    )
    assert got.returncode == 1
    assert "must be called before" in got.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "127.0.0.1"], ids=["other", "taken"])
def test_where_process_0_cannot_listen_is_named(host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        # 192.0.2.1 is of the network that is kept for examples.
        address = f"{host}:{taken.getsockname()[1]}"
        got = run_program(
            """
            try:
                distributed.start()
            except distributed.UserError as error:
                sys.exit(f"refused: {error}")
            """,
            JAX_COORDINATOR_ADDRESS=address,
            JAX_NUM_PROCESSES="2",
            JAX_PROCESS_ID="0",
        )
    assert f"refused: process 0 cannot listen on {address}" in got.stderr


def test_wrong_variables_end_the_command_with_2(tmp_path):
    place = {"JAX_NUM_PROCESSES": "2"}
    with processes.start(
        tmp_path,
        config=processes.toy_config(tmp_path),
        workdir=tmp_path / "run",
        each=((),),
        variables=(place,),
    ) as started:
        assert started.wait() == [2], started.all_output()
    text = started.output(0)
    assert "etc-jax train: of the variables JAX_COORDINATOR_ADDRESS" in text
    assert "Traceback" not in text and not (tmp_path / "run").exists()


@pytest.mark.torch
def test_torchrun_starts_a_run(tmp_path):
    pytest.importorskip("torch")
    with processes.start_one(
        tmp_path / "output",
        [
            sys.executable,
            *("-m", "torch.distributed.run", "--nproc_per_node=2"),
            f"--master_port={processes.free_port()}",
            *("-m", "processes"),
            f"--config={processes.toy_config(tmp_path)}",
            f"--workdir={tmp_path / 'run'}",
        ],
    ) as launcher:
        assert launcher.wait() == [0], launcher.all_output()
    assert "process 1 of 2" in launcher.output(0)
    assert processes.saved_steps(tmp_path / "run") == [4, 8, 12]
