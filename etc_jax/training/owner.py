"""One owner of a workdir: two runs in one folder would overwrite each other's files.

The owner holds a lock (flock) on `owner.json`, which says who it is, and writes the
file again every `REFRESH_SECS`. A file without an owner is taken over:

- The lock is held: there is an owner. The system frees it when a process dies, however
  it dies, and whatever its number is used for next.
- The lock is free and the file is of this machine: the owner is gone. Where a file
  system knows no locks, its process is looked up by number and time of start.
- The lock is free and the file is of another machine: not every file system shares
  locks between machines, so that says nothing. The owner is gone if it does not write
  the file for `WATCH_SECS`. Clocks are not compared.

An owner that was silent for so long and then goes on (a machine that was asleep) finds
another name in the file and ends: see `Owner.check`.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import logging
import os
import pathlib
import shlex
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator

from etc_jax.base import strict_json
from etc_jax.base.whole_files import is_at
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

FILE = "owner.json"
REFRESH_SECS = 10.0
WATCH_SECS = 60.0
NAME_SECS = 5.0


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the file says about the owner.

    Attributes:
      host: name of its machine.
      machine: of this start of the machine, the same in its containers.
      pids: what gives numbers to processes there; containers have their own.
      pid: number of the process.
      ticks: when the process started, as the system counts; None: not known.
      start: the same in words.
      command: of the process.
      token: of this claim alone.
    """

    host: str
    machine: str
    pids: str
    pid: int
    ticks: str | None
    start: str
    command: str
    token: str

    def __str__(self) -> str:
        line = (
            f"process {self.pid} on host {self.host}, since {self.start}: "
            f"{self.command}"
        )
        return "".join(c if c.isprintable() else "?" for c in line)


def _new_claim() -> Claim:
    now = datetime.datetime.now().astimezone()
    return Claim(
        host=socket.gethostname(),
        machine=_machine(),
        pids=_pids(),
        pid=os.getpid(),
        ticks=_ticks(os.getpid()),
        start=now.isoformat(timespec="seconds"),
        command=shlex.join(sys.orig_argv)[:1000],
        token=uuid.uuid4().hex,
    )


def _machine() -> str:
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _pids() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _ticks(pid: int) -> str | None:
    """When a process started; None if it has ended, or the system does not say."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # From field 3 on; the second one, the name in brackets, may hold anything.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


class Owner:
    """This process's hold on a workdir; made by `owned`."""

    def __init__(self, path: pathlib.Path, file: int, claim: Claim):
        self._path, self._file, self._claim = path, file, claim
        self._writes = 0
        self._lost: str | None = None
        self._closed = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._run, name="owner", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Refuses to go on in a folder that another run has taken over.

        Raises:
          UserError: if one has.
        """
        if self._lost is not None:
            raise UserError(
                f"workdir {self._path.parent} was taken over by {self._lost}, while "
                "this process was silent; nothing more is written to it"
            )

    def _write(self) -> None:
        self._writes += 1
        # Always of the same length: nobody reads half an old and half a new one.
        values = {**dataclasses.asdict(self._claim), "writes": f"{self._writes:012}"}
        content = f"{json.dumps(values, indent=1)}\n".encode()
        # In place: the lock belongs to the file, not to its name.
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))

    def _run(self) -> None:
        while not self._closed.wait(REFRESH_SECS) and self._lost is None:
            try:
                self._look_and_write()
            except OSError as error:
                _LOG.warning("%s cannot be written (%s)", self._path, error)

    def _look_and_write(self) -> None:
        claim = _claim_in(_content(self._path))
        if claim is not None and claim.token != self._claim.token:
            self._lost = str(claim)
        elif is_at(self._file, self._path):
            self._write()
        # Else it was deleted by hand, so that another run may begin.

    def close(self) -> None:
        """Lets the folder go."""
        self._closed.set()
        self._thread.join()
        try:
            if self._lost is None and is_at(self._file, self._path):
                self._path.unlink()
        except OSError as error:
            _LOG.warning("%s stays (%s)", self._path, error)
        os.close(self._file)


@contextlib.contextmanager
def owned(folder: str | os.PathLike) -> Iterator[Owner]:
    """Holds a folder for as long as the block runs; one process of a run calls it.

    Args:
      folder: of the run; it exists.

    Raises:
      UserError: if another run has it, or the file cannot be written.
    """
    path, claim = pathlib.Path(folder) / FILE, _new_claim()
    try:
        file = _taken(path, claim)
        try:
            owner = Owner(path, file, claim)
        except OSError:
            os.close(file)
            raise
    except OSError as error:
        raise UserError(f"workdir {folder} cannot be claimed: {error}") from error
    try:
        yield owner
    finally:
        owner.close()


def _taken(path: pathlib.Path, claim: Claim) -> int:
    """The open file, once it is certain that nobody else owns it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            locks = _lock(file, path)
            _outlast_the_owner(path, claim, locks)
            if is_at(file, path):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its owner has deleted it


def _lock(file: int, path: pathlib.Path) -> bool:
    """Locks the file; False if the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _refused(path, _holder(path)) from None
    except OSError as error:
        _LOG.warning("%s cannot be locked (%s): its text has to do", path, error)
        return False
    return True


def _holder(path: pathlib.Path) -> Claim | None:
    """Who holds the lock; None if it does not say so for a while."""
    deadline = time.monotonic() + NAME_SECS
    while (holder := _claim_in(_content(path))) is None:
        # A process that started together with this one has locked the file first and
        # will write its name next.
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return holder


def _outlast_the_owner(path: pathlib.Path, claim: Claim, locks: bool) -> None:
    """Returns when the owner that the file names is gone.

    Raises:
      UserError: if it is not.
    """
    content = _content(path)
    if not content:
        return
    owner = _claim_in(content)
    if owner is not None and owner.machine == claim.machine:
        if _is_running(owner, claim, locks):
            raise _refused(path, owner)
        if locks or (owner.pids == claim.pids and owner.ticks):
            _LOG.warning("workdir %s is taken over from %s", path.parent, owner)
            return
    _watch(path, content, owner)


def _is_running(owner: Claim, claim: Claim, locks: bool) -> bool:
    """Whether there is this process, of the same machine; False also if unknown."""
    if owner.pids != claim.pids or not owner.ticks:
        return False
    if locks and owner.pid == claim.pid:
        return False  # this process has let it go and could not delete the file
    return _ticks(owner.pid) == owner.ticks


def _watch(path: pathlib.Path, content: bytes, owner: Claim | None) -> None:
    """Returns when the file has not changed for a while, or is deleted."""
    _LOG.warning(
        "workdir %s was left by %s; looking for %.0f s whether it still runs. If you "
        "know that it has ended, delete %s and start again",
        path.parent,
        owner or "another process",
        WATCH_SECS,
        path,
    )
    deadline = time.monotonic() + WATCH_SECS
    while time.monotonic() < deadline:
        time.sleep(min(1.0, WATCH_SECS / 10))
        now = _content(path)
        if not now:
            return
        if now != content:
            raise _refused(path, _claim_in(now))


def _refused(path: pathlib.Path, owner: Claim | None) -> UserError:
    return UserError(
        f"workdir {path.parent} is in use by {owner or 'another process'}. Wait for "
        "its end, stop it, or choose another --workdir; if you know that there is no "
        f"such process, delete {path}"
    )


def _content(path: pathlib.Path) -> bytes:
    """What the file holds; nothing if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _claim_in(content: bytes) -> Claim | None:
    """The owner that a file names; None if it cannot be read."""
    try:
        values = strict_json.loads(content)
        return Claim(**{k: v for k, v in values.items() if k != "writes"})
    except (ValueError, TypeError, AttributeError):
        return None
