"""Files and folders that appear whole or not at all; what is no plain file is written
through.

What is not finished lies beside its name, as `.NAME.etc_jax-0`, locked by the process
that writes it. The system frees the lock of a killed process, and the next one that
writes the same name takes over what was left. A file in an object store is made in the
temporary folder of this machine, and written at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gzip
import io
import itertools
import os
import pathlib
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from typing import TextIO

from etc_jax.base import stores
from etc_jax.base.local_paths import naming

# In the hidden folder of a folder that is made.
_NEW, _OLD = "new", "old"
# The name of what is not finished.
_UNFINISHED = re.compile(r"\.(.+)\.etc_jax-\d+")
_EXCHANGE = 2  # of renameat2 in Linux and of renamex_np in macOS
_HERE = -100  # AT_FDCWD
# A file system, or a system, on which folders cannot be exchanged.
_NOT_POSSIBLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Where to write a file that gets its name when the block has ended.

    A link stays one: what it points to is written. A device, a pipe or a socket is not
    replaced: it is what is to be written to, and what was written stays written. If the
    block raises, what was written elsewhere is removed; see `naming`.
    """
    if stores.is_address(path):
        with tempfile.TemporaryDirectory(prefix="etc_jax_") as folder:
            part = pathlib.Path(folder, os.path.basename(path))
            yield part
            stores.upload(part, path)
        return
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        yield pathlib.Path(path)
        return
    target = pathlib.Path(os.path.realpath(path))
    with _unfinished(target, is_folder=False) as part:
        yield part
        os.replace(part, target)


@contextlib.contextmanager
def whole_folder(
    path: str | os.PathLike,
    replaced_fn: Callable[[pathlib.Path], Collection[str]] | None = None,
) -> Iterator[pathlib.Path]:
    """A folder to write to that gets its name when the block has ended.

    A kill at any time leaves the old folder or the new one. (Where the file system
    cannot exchange two folders, a kill between two calls leaves the old one beside its
    name, and the next call puts it back.)

    Args:
      path: of the folder; those above it are made.
      replaced_fn: from the folder that is there to the names, relative to it, of the
        files that are replaced or removed; all others stay. None: none may be there.

    Raises:
      OSError: if it cannot be written, or holds something, without `replaced_fn`.
      ValueError: if a new file would replace one that is not to be replaced.
    """
    target = pathlib.Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _unfinished(target, is_folder=True) as work:
        new = work / _NEW
        new.mkdir()
        yield new
        if replaced_fn is None or not target.exists():
            os.rename(new, target)  # replaces an empty folder and no other
            return
        replaced = frozenset(replaced_fn(target))
        _keep_others(target, new, replaced)
        old = _swap(new, target, work / _OLD)
        _move_newer(old, target, replaced)


@contextlib.contextmanager
def work_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """An empty hidden folder beside a file that is made, for the time of the block."""
    with _unfinished(pathlib.Path(os.path.realpath(path)), is_folder=True) as work:
        yield work


@contextlib.contextmanager
def _unfinished(target: pathlib.Path, *, is_folder: bool) -> Iterator[pathlib.Path]:
    """An empty hidden file or folder beside a target, which this process has locked.

    It is removed in the end, unless it has become the target.
    """
    for number in itertools.count():
        part = target.with_name(f".{target.name}.etc_jax-{number}")
        if (lock := _locked(part, is_folder)) is None:
            continue
        if not is_folder or _emptied(part, target):
            break
        os.close(lock)
    try:
        with naming(target):
            yield part
    finally:
        if is_at(lock, part):  # the name may be another process's by now
            _remove(part)
        os.close(lock)


def _locked(part: pathlib.Path, is_folder: bool) -> int | None:
    """An open file that holds the lock of a part; None if another process has it."""
    while True:
        is_new = True
        try:
            part.mkdir() if is_folder else part.touch(exist_ok=False)
        except FileExistsError:
            is_new = False
            if part.is_dir() != is_folder:
                return None
        try:
            lock = os.open(part, os.O_RDONLY if is_folder else os.O_RDWR)
        except FileNotFoundError:
            continue  # its owner has renamed or removed it just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Without locks nobody knows whose an old one is.
            if is_new and not isinstance(error, BlockingIOError):
                return lock
            os.close(lock)
            return None
        if is_at(lock, part):
            return lock
        os.close(lock)


def unfinished_target(name: str) -> str | None:
    """The name that an unfinished file or folder is to get; None if it is none."""
    match = _UNFINISHED.fullmatch(name)
    return match and match[1]


def is_at(file: int, path: str | os.PathLike) -> bool:
    """Whether an open file still has a name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _emptied(work: pathlib.Path, target: pathlib.Path) -> bool:
    """Removes what a killed process left; False if it is the only copy of something."""
    if (work / _OLD).exists() and (work / _NEW).exists():  # killed within `_swap`
        if target.exists():
            return False
        os.rename(work / _OLD, target)
    for path in work.iterdir():
        _remove(path)
    return True


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _swap(new: pathlib.Path, target: pathlib.Path, old: pathlib.Path) -> pathlib.Path:
    """Gives a new folder the name of the target; returns where the old one is now."""
    if _exchange(new, target):
        return new
    os.rename(target, old)
    try:
        os.rename(new, target)
    except BaseException:
        os.rename(old, target)
        raise
    return old


def _keep_others(
    folder: pathlib.Path, new: pathlib.Path, replaced: frozenset[str]
) -> None:
    """Gives a new folder what others have put into the old one, as links to the files.

    Raises:
      ValueError: if the new folder has a file of the same name.
    """
    new_names = {path.relative_to(new).as_posix() for path in _files(new)}
    for name in sorted(new_names - replaced):
        if os.path.lexists(folder / name):
            raise ValueError(
                f"{folder / name} is not one of the files that are replaced in "
                f"{folder}; move it away, or name another folder"
            )

    def ours(inner: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if pathlib.Path(inner, name).relative_to(folder).as_posix() in replaced
        ]

    shutil.copytree(
        folder,
        new,
        symlinks=True,
        ignore=ours,
        copy_function=_link,
        dirs_exist_ok=True,
    )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # the file system has no hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """What is in a folder and those below it, but for the folders."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path


def _move_newer(
    old: pathlib.Path, folder: pathlib.Path, replaced: frozenset[str]
) -> None:
    """Moves what others have written to the old folder since its files were linked."""
    for path in list(_files(old)):
        name = path.relative_to(old)
        current = folder / name
        if name.as_posix() not in replaced and not (
            os.path.lexists(current) and os.path.samestat(path.lstat(), current.lstat())
        ):
            current.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, current)


def _exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Gives two folders each other's name at once; False if that is not possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if (linux := getattr(libc, "renameat2", None)) is not None:
        failed = linux(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif (macos := getattr(libc, "renamex_np", None)) is not None:
        failed = macos(*names, _EXCHANGE)
    else:
        return False
    if failed and (code := ctypes.get_errno()) not in _NOT_POSSIBLE:
        raise OSError(code, os.strerror(code), str(other))
    return not failed


@contextlib.contextmanager
def whole_text(path: str | os.PathLike) -> Iterator[TextIO]:
    """A file of UTF-8 to write to, as of `whole`; gzipped if it is named `.gz`.

    The same text gives the same bytes. Halves of characters are written as JSON spells
    them, see `write_whole`.
    """
    with contextlib.ExitStack() as stack:
        binary = stack.enter_context(open(stack.enter_context(whole(path)), "wb"))
        if os.fspath(path).endswith(".gz"):
            # Without a name and a time, which differ from run to run.
            packed = gzip.GzipFile("", "wb", fileobj=binary, mtime=0)
            binary = stack.enter_context(packed)
        text = io.TextIOWrapper(binary, "utf-8", "backslashreplace", newline="\n")
        yield stack.enter_context(text)


def check_out(path: str | os.PathLike, *, overwrite: bool) -> None:
    """Refuses an `--out` that cannot be written, or that another file has.

    Raises:
      ValueError: if it is no file in a folder that exists, or exists itself and
        `overwrite` is not set.
    """
    path = pathlib.Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--out must be a file in a folder that exists, got {path}")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists; give another --out or --overwrite")


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes a file that is the old or the whole new one, after a power cut too.

    Halves of characters, which JSON can spell and UTF-8 cannot, are written as JSON
    spells them: text of others must not keep finished work from being written.

    Raises:
      OSError: if the storage refuses.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with whole(path) as part, open(part, "wb") as file:
        file.write(content)
        file.flush()
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fsync(file.fileno())  # or a power cut could leave the name alone
