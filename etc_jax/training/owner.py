"""One owner of a workdir: two runs in one folder would overwrite each other's files.

The owner holds a lock (flock) on `owner.json`, which says who it is, and writes the
file again every `claim.REFRESH_SECS`. A file without an owner is taken over:

- The lock is held: there is an owner. The system frees it when a process dies, however
  it dies, and whatever its number is used for next.
- The lock is free and the file is of this machine: the owner is gone. Where a file
  system knows no locks, its process is looked up by number and time of start.
- The lock is free and the file is of another machine: not every file system shares
  locks between machines, so that says nothing. The owner is gone if it does not write
  the file for `claim.WATCH_SECS`. Clocks are not compared.

An owner that was silent for so long and then goes on (a machine that was asleep) finds
another name in the file and ends: see `Owner.check`. Object stores have no locks, and
something better: see `lease`.
"""

import contextlib
import fcntl
import logging
import os
import pathlib
import time
from collections.abc import Iterator

from etc_jax.base import stores
from etc_jax.base.whole_files import is_at
from etc_jax.training import claim as claim_lib, lease
from etc_jax.training.claim import FILE, Claim, Owner
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

NAME_SECS = 5.0


class _Locked(Owner):
    """A hold on the open file."""

    def __init__(self, path: pathlib.Path, file: int, claim: Claim):
        self._file = file
        super().__init__(path, claim)

    def _put(self, content: bytes) -> None:
        # In place: the lock belongs to the file, not to its name.
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))

    def _renew(self) -> Claim | None:
        claim = claim_lib.claim_in(_content(self._path))
        if claim is not None and claim.token != self._claim.token:
            return claim
        if is_at(self._file, self._path):
            self._write()
        # Else it was deleted by hand, so that another run may begin.
        return None

    def _release(self) -> None:
        if is_at(self._file, self._path):
            self._path.unlink()

    def close(self) -> None:
        super().close()
        os.close(self._file)


@contextlib.contextmanager
def owned(folder: str | os.PathLike) -> Iterator[Owner]:
    """Holds a folder for as long as the block runs; one process of a run calls it.

    Args:
      folder: of the run; it exists.

    Raises:
      UserError: if another run has it, or the file cannot be written.
    """
    claim = claim_lib.new_claim()
    try:
        if stores.is_address(folder):
            owner = lease.take(stores.absolute(folder) / FILE, claim)
        else:
            owner = _lock_held(pathlib.Path(folder) / FILE, claim)
    except OSError as error:
        raise UserError(f"workdir {folder} cannot be claimed: {error}") from error
    try:
        yield owner
    finally:
        owner.close()


def _lock_held(path: pathlib.Path, claim: Claim) -> Owner:
    file = _taken(path, claim)
    try:
        return _Locked(path, file, claim)
    except OSError:
        os.close(file)
        raise


def _taken(path: pathlib.Path, claim: Claim) -> int:
    """The open file, once it is certain that nobody else owns it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            locks = _lock(file, path)
            claim_lib.outlast(path, _content(path), claim, _content, locks=locks)
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
        raise claim_lib.refused(path, _holder(path)) from None
    except OSError as error:
        _LOG.warning("%s cannot be locked (%s): its text has to do", path, error)
        return False
    return True


def _holder(path: pathlib.Path) -> Claim | None:
    """Who holds the lock; None if it does not say so for a while."""
    deadline = time.monotonic() + NAME_SECS
    while (holder := claim_lib.claim_in(_content(path))) is None:
        # A process that started together with this one has locked the file first and
        # will write its name next.
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return holder


def _content(path: pathlib.Path) -> bytes:
    """What the file holds; nothing if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
