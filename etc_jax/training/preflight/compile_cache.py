"""XLA's cache of compiled programs, with which a restarted run starts in seconds.

What lies in it is code that runs as the user: whoever can write there can put another
program in the place of a step. So it lies outside the folders of runs, which are copied
and shared, in one that belongs to the user alone: see `base.user_cache`.

Entries are named by jax after program, options, devices and versions, so that any runs
can share it; hosts with other processors have a folder of their own.
"""

import contextlib
import hashlib
import logging
import os
import pathlib
import platform
import stat
from collections.abc import Iterator

import jax
from jax.experimental.compilation_cache import compilation_cache

from etc_jax.base import user_cache

_LOG = logging.getLogger(__name__)

MOST_BYTES = 10 * 1 << 30  # of the user's own folder; the oldest entries go
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@contextlib.contextmanager
def use(chosen: str | os.PathLike | None) -> Iterator[None]:
    """Keeps compiled programs, unless a cache is set for the process already.

    A folder that cannot be used costs time alone, so it is named in the log and the
    run goes on without; so do programs for several CPU devices, which deadlock when
    they are read back. The setting of the process is put back.

    Args:
      chosen: a folder that the user names and answers for; None: the user's own.
    """
    if jax.config.jax_compilation_cache_dir is not None:
        yield
    elif _deadlocks_when_read_back():
        _LOG.log(
            logging.INFO if chosen is None else logging.WARNING,
            "compiled programs are not kept: for several CPU devices (here %d), XLA "
            "loses the order of their collectives",
            len(jax.devices()),
        )
        yield
    else:
        with keep_in(user_folder() if chosen is None else _named(os.fspath(chosen))):
            yield


@contextlib.contextmanager
def keep_in(folder: str | None) -> Iterator[None]:
    """Keeps compiled programs in a folder, and none where that is None."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()  # a cache that is in use ignores the new folder
    try:
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        compilation_cache.reset_cache()


def _deadlocks_when_read_back() -> bool:
    """Whether a program that was kept may wait for ever.

    The collectives of a program run in one order on all devices because they use one
    resource. XLA's CPU programs are saved without it: when one is read back, the
    collectives in the body of a loop share another resource than those outside, and no
    order is left between a loop and a collective that needs nothing of it. Devices then
    run the two as their threads come, and one that waits in the first for a device that
    waits in the second waits for ever (jaxlib 0.10.2; TF_CPP_MIN_LOG_LEVEL=0
    TF_CPP_VMODULE=thunk_executor=6 shows what each step of a program depends on).
    """
    return jax.default_backend() == "cpu" and len(jax.devices()) > 1


def user_folder() -> str | None:
    """Where the user's programs for this processor lie; None if that is not safe."""
    try:
        top = user_cache.root()
        top.parent.mkdir(parents=True, exist_ok=True)
        folder = top / "compiled" / _processor()
        for path in (top, folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
            if problem := _not_mine(path):
                raise PermissionError(f"{path} {problem}")
            path.chmod(0o700)
        _trim(folder)
    except (OSError, RuntimeError) as error:
        _LOG.warning(
            "compiled programs are not kept, so that each start compiles again: %s. "
            "Remove the folder, or name one of your own in $%s or "
            "train.compile_cache_dir",
            error,
            user_cache.VARIABLE,
        )
        return None
    return str(folder)


def _not_mine(path: pathlib.Path) -> str | None:
    """Why somebody else could have put code into a folder."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "is a link or a file, not a folder"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, and you are {os.geteuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _named(folder: str) -> str:
    """The folder that the user has named; what is odd about it is only said."""
    path = pathlib.Path(folder)
    if path.exists() and (problem := _not_mine(path)):
        _LOG.warning(
            "train.compile_cache_dir=%s %s: whoever can write there decides what this "
            "run computes",
            folder,
            problem,
        )
    return folder


def _processor() -> str:
    """Names what programs for CPUs are compiled for; jax's names leave it out."""
    about = platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((x for x in lines if x.lower().startswith(("flags", "features"))), "")
    return f"{about}-{hashlib.sha256(flags.encode()).hexdigest()[:12]}"


def _trim(folder: pathlib.Path) -> None:
    """Removes the oldest entries of a folder that has grown too large."""
    files = [(path, path.stat()) for path in folder.iterdir() if path.is_file()]
    total = sum(status.st_size for _, status in files)
    for path, status in sorted(files, key=lambda file: file[1].st_mtime):
        if total <= MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= status.st_size
