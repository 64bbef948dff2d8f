"""Signals in one process; two processes are in tests/e2e."""

import os
import signal
import threading
import types

import jax
import processes
import programs
import pytest

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.hosts.preemption import PreemptionGuard, StopVote


@pytest.fixture(params=PreemptionGuard.SIGNALS)
def number(request):
    return request.param


@pytest.fixture
def got(number):
    """Notes the signals that reach the handler of before the guard."""
    seen = []
    before = signal.signal(number, lambda received, _: seen.append(received))
    yield seen
    signal.signal(number, before)


def test_the_first_signal_is_noted_and_the_second_acts_as_before(number, got):
    with PreemptionGuard() as guard:
        assert not guard.requested
        os.kill(os.getpid(), number)
        assert guard.requested and guard.signal_name == signal.Signals(number).name
        assert got == []
        os.kill(os.getpid(), number)
        assert got == [number]
    os.kill(os.getpid(), number)
    assert got == [number, number]


def test_handlers_are_put_back_without_a_signal(number, got):
    before = signal.getsignal(number)
    with PreemptionGuard():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_another_thread_only_warns(caplog):
    guards = []

    def enter():
        with PreemptionGuard() as guard:
            guards.append(guard)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not guards[0].requested
    assert signal.getsignal(signal.SIGTERM) is before
    assert "not in the main thread" in caplog.text
    assert "SIGTERM will not be caught" in caplog.text


def test_one_process_follows_its_guard_at_once(monkeypatch):
    monkeypatch.setattr(jax, "jit", lambda *a, **k: pytest.fail("compiled"))
    guard = types.SimpleNamespace(signal_name=None)
    vote = StopVote(guard, make_mesh(MeshConfig()))
    vote.after_step()
    assert not vote.stop and vote.signal_name is None
    guard.signal_name = "SIGINT"
    assert vote.stop and vote.signal_name == "SIGINT"


def test_a_vote_over_devices_is_known_one_step_late(monkeypatch):
    guard = types.SimpleNamespace(signal_name=None)
    alone = StopVote(guard, make_mesh(MeshConfig(fsdp=2, tensor=2)))
    # As if the devices of the mesh were those of several processes.
    monkeypatch.setattr(StopVote, "_is_alone", lambda self, mesh: False)
    vote = StopVote(guard, make_mesh(MeshConfig(fsdp=2, tensor=2)))
    for _ in range(3):
        vote.after_step()
        assert not vote.stop
    guard.signal_name = "SIGTERM"
    assert alone.stop
    vote.after_step()
    assert not vote.stop
    vote.after_step()
    assert vote.stop and vote.signal_name == "SIGTERM"


LIBRARY = """
import sys
import jax
{initialize}
import pytest, toy_job, training_runs
from etc_jax.training.run import train_and_evaluate
training_runs.stop_after(pytest.MonkeyPatch(), 5)
result = train_and_evaluate(toy_job.config(), sys.argv[1])
assert result.step == 5, result.step
sys.exit(result.exit_code)
"""
INITIALIZED = (
    "jax.distributed.initialize('127.0.0.1:{port}', num_processes=1, process_id=0)"
)


@pytest.mark.parametrize("initialize", ["", INITIALIZED], ids=["without", "with"])
def test_a_program_of_its_own_saves_too(tmp_path, initialize):
    """Also where jax's preemption service, written in C++, had the signal before."""
    program = LIBRARY.format(initialize=initialize.format(port=processes.free_port()))
    got = programs.run(
        "-c",
        program,
        str(tmp_path / "run"),
        environ=processes.clean_environment(),
    )
    assert got.returncode == 17, got.stderr
    assert processes.saved_steps(tmp_path / "run") == [4, 5]
