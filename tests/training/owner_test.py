"""A workdir has one owner at a time, and none for longer than its process lives."""

import dataclasses
import errno
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import limits
import processes
import pytest

from etc_jax.training import claim as claim_lib
from etc_jax.training.errors import UserError
from etc_jax.training.owner import FILE, owned

# Owns the folder, says so, and sleeps.
HOLDS = """
import sys, time
from etc_jax.training import owner
with owner.owned(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def quick(monkeypatch):
    """Short waits."""
    monkeypatch.setattr(claim_lib, "REFRESH_SECS", 0.02)
    monkeypatch.setattr(claim_lib, "WATCH_SECS", 0.5)


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(claim_lib, "outwatch", lambda *args: pytest.fail("waited"))


@pytest.fixture
def no_locks(monkeypatch):
    """A file system without locks."""

    def flock(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.fixture
def holder(tmp_path):
    """Another process that owns `tmp_path`."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        env=processes.clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def named(folder) -> dict:
    return json.loads((folder / FILE).read_text())


def refused(folder) -> str:
    with pytest.raises(UserError) as caught, owned(folder):
        pytest.fail("two owners")
    return str(caught.value)


def leave(folder, **changes):
    """What an owner leaves that was killed."""
    with owned(folder):
        values = named(folder) | changes
    (folder / FILE).write_text(json.dumps(values))


def test_the_owner_is_named_and_let_go(tmp_path):
    with owned(tmp_path) as owner:
        values = named(tmp_path)
        assert values["pid"] == os.getpid() and values["host"] == os.uname().nodename
        assert values["command"].startswith(sys.orig_argv[0])
        owner.check()
    assert list(tmp_path.iterdir()) == []
    with owned(tmp_path):
        pass


def test_a_second_run_is_refused_with_the_owner_s_name(tmp_path, holder, no_waiting):
    before = (tmp_path / FILE).read_bytes()
    text, values = refused(tmp_path), named(tmp_path)
    command = values["command"].replace("\n", "?")
    for told in (values["host"], values["start"], command, FILE):
        assert told in text
    assert f"process {holder.pid} on host" in text and "\n" not in text
    assert (tmp_path / FILE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_an_owner_that_has_not_written_its_name_yet_is_waited_for(tmp_path):
    leave(tmp_path, host="near")
    name = (tmp_path / FILE).read_bytes()
    with open(tmp_path / FILE, "wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        later = threading.Timer(0.2, file.write, [name])
        later.start()
        assert re.search("in use by process .* on host near", refused(tmp_path))
        later.join()


def test_a_killed_owner_is_followed_at_once(tmp_path, holder, no_waiting, caplog):
    holder.kill()
    # All its threads end, but it is left in the table of processes, which is no owner.
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    with owned(tmp_path):
        assert named(tmp_path)["pid"] == os.getpid()
    assert f"taken over from process {holder.pid}" in caplog.text


def test_a_paused_owner_is_one(tmp_path, holder):
    holder.send_signal(signal.SIGSTOP)
    assert "is in use by" in refused(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_without_locks_the_process_is_looked_up(tmp_path, holder, no_locks, no_waiting):
    assert f"in use by process {holder.pid}" in refused(tmp_path)
    holder.kill()
    holder.wait()
    with owned(tmp_path):
        pass


@pytest.mark.parametrize("locks", [True, False])
def test_a_number_that_is_used_again_is_another_process(
    tmp_path, request, no_waiting, locks
):
    """As in a container, where the process has the number 1 each time."""
    if not locks:
        request.getfixturevalue("no_locks")
    leave(tmp_path, pid=os.getppid(), ticks="7", token="other")
    with owned(tmp_path):
        pass


def test_another_container_of_this_machine_is_known_by_the_lock(tmp_path, no_waiting):
    leave(tmp_path, pids="pid:[1]", token="other")
    with owned(tmp_path):
        pass


def test_an_owner_on_another_machine_that_writes_is_one(tmp_path, quick):
    leave(tmp_path, machine="other", host="far", token="other")
    closed = threading.Event()

    def refresh():
        for number in range(10**6):
            if closed.wait(0.05):
                return
            text = json.dumps(named(tmp_path) | {"writes": str(number)})
            part = tmp_path / "part"
            part.write_text(text)
            os.replace(part, tmp_path / FILE)

    thread = threading.Thread(target=refresh)
    thread.start()
    try:
        assert re.search("in use by process .* on host far", refused(tmp_path))
    finally:
        closed.set()
        thread.join()


@pytest.mark.parametrize("content", [None, b"\0" * 300, b"[]", b'{"pid": 1'])
def test_a_silent_one_is_gone_after_a_while(tmp_path, quick, caplog, content):
    leave(tmp_path, machine="other", host="far", token="other")
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    began = time.monotonic()
    with owned(tmp_path):
        assert time.monotonic() - began >= 0.5
        assert named(tmp_path)["pid"] == os.getpid()
    assert "If you know that it has ended, delete" in caplog.text


def test_one_that_was_taken_over_meanwhile_ends(tmp_path, quick):
    """As a machine that was asleep, and another one that took its workdir."""
    with owned(tmp_path) as owner:
        values = named(tmp_path) | {"host": "far", "token": "other"}
        (tmp_path / FILE).write_text(json.dumps(values))
        limits.until(lambda: owner._lost is not None)
        with pytest.raises(UserError, match="taken over by process .* on host far"):
            owner.check()
    assert named(tmp_path)["token"] == "other"  # which is not ours to delete


def test_a_disk_that_fills_up_does_not_end_the_owner(
    tmp_path, quick, monkeypatch, caplog
):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with owned(tmp_path) as owner:
        monkeypatch.setattr(os, "pwrite", full)
        limits.until(lambda: "No space left" in caplog.text)
        owner.check()
    assert not list(tmp_path.iterdir())


def test_the_text_of_a_claim_keeps_the_terminal_as_it_is():
    claim = dataclasses.replace(claim_lib.new_claim(), host="a\x1b[2J\u202eb")
    assert "host a?[2J?b," in str(claim)


def start(folder, name, *arguments):
    return processes.start(
        folder / name,
        *arguments,
        config=processes.toy_config(folder),
        workdir=folder / "run",
        each=((),),
        devices=1,
        variables=({},),
    )


def test_of_two_runs_one_goes_on_and_after_its_death_the_next(tmp_path):
    endless = ("--config.train.num_steps=1000000",)
    with start(tmp_path, "a", *endless) as a, start(tmp_path, "b", *endless) as b:
        limits.until(
            lambda: any(x.children[0].poll() is not None for x in (a, b)),
            lambda: a.all_output() + b.all_output(),
        )
        first, second = (b, a) if a.children[0].poll() is not None else (a, b)
        assert second.wait() == [2], second.output(0)
        (line,) = [x for x in second.output(0).splitlines() if "is in use by" in x]
        assert f"process {first.children[0].pid} on host" in line
        assert "Traceback" not in second.output(0)
        first.reaches(tmp_path / "run", lines=3)
        first.children[0].kill()
        first.wait()
    began = time.monotonic()
    with start(tmp_path, "c", *endless) as c:
        limits.until(lambda: "taken over from" in c.output(0), lambda: c.output(0))
    print(f"the next run had the folder {time.monotonic() - began:.1f} s after launch")


def test_pathlib_paths_and_text_do(tmp_path):
    for folder in (pathlib.Path(tmp_path), str(tmp_path)):
        with owned(folder):
            assert (tmp_path / FILE).exists()
