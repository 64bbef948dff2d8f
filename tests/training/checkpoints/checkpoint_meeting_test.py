"""Processes of a save wait for each other, and hear at once if one cannot come."""

import concurrent.futures
import time
import types

import limits
import pytest
from coordinator_store import Store
from jax._src import distributed as jax_distributed

from etc_jax.training.checkpoints.meeting import Meeting


@pytest.fixture
def meetings(monkeypatch):
    """The same meeting as each of three processes has it."""
    store, made = Store(), []
    for index in range(3):
        state = types.SimpleNamespace(client=store, process_id=index, num_processes=3)
        monkeypatch.setattr(jax_distributed, "global_state", state)
        made.append(Meeting("m"))
    return made


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield pool


def wait(meeting, key="k", secs=20):
    meeting.wait(key=key, timeout_ms=int(1000 * secs))


def test_all_go_on_when_the_last_has_come(meetings, pool):
    first = [pool.submit(wait, meeting) for meeting in meetings[:2]]
    time.sleep(0.1)
    assert not any(future.done() for future in first)
    wait(meetings[2])
    assert [future.result(timeout=limits.SECS) for future in first] == [None, None]


def test_another_key_is_another_place(meetings, pool):
    others = [pool.submit(wait, m, key="a") for m in meetings[:2]]
    with pytest.raises(TimeoutError, match=r"processes \[0, 1\] have not written"):
        wait(meetings[2], key="b", secs=0.05)
    wait(meetings[2], key="a")
    assert all(future.result(timeout=limits.SECS) is None for future in others)


def test_one_that_fails_ends_the_waiting_of_all(meetings, pool):
    first = [pool.submit(wait, meeting) for meeting in meetings[:2]]
    assert meetings[0].called_off() is None
    meetings[2].call_off("OSError: disk full")
    meetings[1].call_off("something later")
    for future in first:
        with pytest.raises(RuntimeError, match="^process 2 failed: OSError: disk full"):
            future.result(timeout=limits.SECS)
    assert meetings[0].called_off() == "process 2 failed: OSError: disk full"


def test_alone_there_is_nobody_to_tell():
    meeting = Meeting("alone")
    meeting.call_off("x")
    assert meeting.called_off() is None
