"""Who owns a workdir, as its `owner.json` says."""

import abc
import dataclasses
import datetime
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
from collections.abc import Callable

from etc_jax.base import strict_json
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

FILE = "owner.json"
REFRESH_SECS = 10.0
WATCH_SECS = 60.0


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


def new_claim() -> Claim:
    """Of this process."""
    now = datetime.datetime.now().astimezone()
    return Claim(
        host=socket.gethostname(),
        machine=_machine(),
        pids=_pids(),
        pid=os.getpid(),
        ticks=ticks_of(os.getpid()),
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


def ticks_of(pid: int) -> str | None:
    """When a process started; None if it has ended, or the system does not say."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # From field 3 on; the second one, the name in brackets, may hold anything.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def is_running(owner: Claim, claim: Claim, locks: bool) -> bool:
    """Whether there is this process, of the same machine; False also if unknown.

    Args:
      owner: whom a file names.
      claim: of this process.
      locks: whether this process would hold the file if the owner were it.
    """
    if owner.pids != claim.pids or not owner.ticks:
        return False
    if locks and owner.pid == claim.pid:
        return False  # this process has let it go and could not delete the file
    return ticks_of(owner.pid) == owner.ticks


def outlast(
    path: pathlib.PurePath,
    content: bytes,
    claim: Claim,
    read_fn: Callable[[pathlib.PurePath], bytes],
    *,
    locks: bool,
) -> None:
    """Returns when the owner that a file names is gone.

    Args:
      path: of the file.
      content: what it holds; nothing if there is none.
      claim: of this process.
      read_fn: see `outwatch`.
      locks: see `is_running`.

    Raises:
      UserError: if it is not gone.
    """
    if not content:
        return
    owner = claim_in(content)
    if owner is not None and owner.machine == claim.machine:
        if is_running(owner, claim, locks):
            raise refused(path, owner)
        if locks or (owner.pids == claim.pids and owner.ticks):
            _LOG.warning("workdir %s is taken over from %s", path.parent, owner)
            return
    outwatch(path, content, owner, read_fn)


def outwatch(
    path: pathlib.PurePath,
    content: bytes,
    owner: Claim | None,
    read_fn: Callable[[pathlib.PurePath], bytes],
) -> None:
    """Returns when a file has not changed for a while, or is deleted.

    Args:
      path: of the file.
      content: what it held.
      owner: whom that names.
      read_fn: what it holds now; nothing if there is none.

    Raises:
      UserError: if it changes.
    """
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
        now = read_fn(path)
        if not now:
            return
        if now != content:
            raise refused(path, claim_in(now))


def claim_in(content: bytes) -> Claim | None:
    """The owner that a file names; None if it cannot be read."""
    try:
        values = strict_json.loads(content)
        return Claim(**{k: v for k, v in values.items() if k != "writes"})
    except (ValueError, TypeError, AttributeError):
        return None


def refused(path: pathlib.PurePath, owner: Claim | None) -> UserError:
    """The error for a folder that has an owner."""
    return UserError(
        f"workdir {path.parent} is in use by {owner or 'another process'}. Wait for "
        "its end, stop it, or choose another --workdir; if you know that there is no "
        f"such process, delete {path}"
    )


class Owner(abc.ABC):
    """This process's hold on a workdir; made by `owner.owned`.

    Args:
      path: of the file.
      claim: that is written to it.
    """

    def __init__(self, path: pathlib.PurePath, claim: Claim):
        self._path, self._claim = path, claim
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
        self._put(f"{json.dumps(values, indent=1)}\n".encode())

    @abc.abstractmethod
    def _put(self, content: bytes) -> None:
        """Writes the file; OSError if that fails."""

    @abc.abstractmethod
    def _renew(self) -> Claim | None:
        """Writes the file again, unless another owner has it, who is returned."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Deletes the file, if it is this process's still."""

    def _run(self) -> None:
        while not self._closed.wait(REFRESH_SECS) and self._lost is None:
            try:
                if (claim := self._renew()) is not None:
                    self._lost = str(claim)
            except OSError as error:
                _LOG.warning("%s cannot be written (%s)", self._path, error)

    def close(self) -> None:
        """Lets the folder go."""
        self._closed.set()
        self._thread.join()
        try:
            if self._lost is None:
                self._release()
        except OSError as error:
            _LOG.warning("%s stays (%s)", self._path, error)
