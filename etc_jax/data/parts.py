"""Long work on a row of items in numbered parts: by several processes, and resumable.

Items are cut into parts in order. What comes of each part becomes a file of its own,
which appears whole or not at all and names the items that it was made of by a digest. A
second run goes through the items again, takes over the parts that are there and makes
the rest. Neither the borders of parts nor the processes shape the result.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import signal
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TextIO

import numpy as np

from etc_jax.base import registry, strict_json
from etc_jax.base.local_paths import naming
from etc_jax.base.whole_files import is_at, whole
from etc_jax.data.workers import end_with_parent

_LOG = logging.getLogger(__name__)
_LOCK = "lock"
# Bytes of a part of records: what a kill undoes for each process. Half a second of work
# on articles, half of whose bytes are places of words, two or three on paragraphs. More
# would be held in memory, where articles are ten times as large.
PART_BYTES = 1 << 21
_PART_RECORDS = 1 << 12
# What numpy raises over the head of a damaged file, which it reads as Python.
NUMPY_UNREADABLE = (
    *(OSError, ValueError, EOFError, TypeError, SyntaxError),
    tokenize.TokenError,
)
# Of an archive; RuntimeError: it is encrypted.
_UNREADABLE = (*NUMPY_UNREADABLE, KeyError, RuntimeError, zipfile.BadZipFile)

Item = Any


class Part(NamedTuple):
    """What came of some items.

    Attributes:
      facts: JSON values.
      arrays: by name.
    """

    facts: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


class WorkerDiedError(RuntimeError):
    """A process that worked on parts ended by itself."""

    exit_code = 1


MakeFn = Callable[[list[Item]], Part]


class Executor(Protocol):
    """Who makes parts: this process, others of this machine, or a cluster.

    Attributes:
      ahead: how many parts may wait, so that no worker ever does.
    """

    ahead: int

    def submit(
        self, file: pathlib.Path, digest: str, items: list[Item]
    ) -> Callable[[], None]:
        """Has a part made; what is returned waits for its file."""


class Recipe(NamedTuple):
    """How parts are made.

    Attributes:
      make_fn: what this process does with the items of a part.
      open_fn: a function of a module; `open_fn(*open_args)` gives another process its
        `make_fn`.
      open_args: small and picklable.
    """

    make_fn: MakeFn
    open_fn: Callable[..., MakeFn]
    open_args: tuple[Any, ...]


def cut_records(
    records: Iterable[Any], most_bytes: int = PART_BYTES
) -> Iterator[tuple[str, list[Any]]]:
    """(digest, records) of each part, each ended by the record that makes it full.

    Args:
      records: dataclasses.
      most_bytes: of a part, as pickled.
    """
    items: list[Any] = []
    size, digest = 0, hashlib.blake2b(digest_size=16)
    for record in records:
        content = _content(record)
        digest.update(content)
        items.append(record)
        size += len(content)
        if size >= most_bytes or len(items) >= _PART_RECORDS:
            yield digest.hexdigest(), items
            items, size, digest = [], 0, hashlib.blake2b(digest_size=16)
    if items:
        yield digest.hexdigest(), items


def _content(record: Any) -> bytes:
    """All that a record holds; `repr` would leave out the middle of long arrays."""
    fields = dataclasses.fields(record)
    return pickle.dumps([getattr(record, field.name) for field in fields])


def make_parts(
    cut: Iterable[tuple[str, list[Item]]],
    recipe: Recipe,
    folder: pathlib.Path,
    *,
    workers: int | str = 0,
) -> Iterator[Part]:
    """The parts in order, each from its file in `folder` once that is written.

    The items of no more than two parts a worker, and one, are in memory.

    Args:
      cut: (digest, items) of each part.
      recipe: what is done with the items.
      folder: of the part files; those of equal digests are taken over.
      workers: processes that work; 0: this one; or the address of a cluster, see
        `data.cluster`.

    Raises:
      MissingExtraError: if dask is not installed, which a cluster needs.
      ValueError: if no cluster answers.
      WorkerDiedError: if a worker process is killed, or a cluster ends.
    """
    reused, waiting = 0, collections.deque()

    def take() -> Part:
        file, digest, job = waiting.popleft()
        if job is not None:
            job()
        part = read_part(file, digest)
        if part is None:
            raise RuntimeError(f"{file} vanished or changed while it was in use")
        return part

    with _executor(workers, recipe) as executor:
        numbers = itertools.count()  # enumerate would hold on to the items
        for digest, items in cut:
            file = folder / f"{next(numbers):06d}.npz"
            finished = file.exists() and read_part(file, digest) is not None
            reused += finished
            job = None if finished else executor.submit(file, digest, items)
            waiting.append((file, digest, job))
            # Or they would be held until the next part is cut.
            del items, job
            if len(waiting) > executor.ahead:
                yield take()
        if reused:
            _LOG.info("%s: %d finished parts taken over", folder, reused)
        while waiting:
            yield take()


# --- files ----------------------------------------------------------------------------


def write_part(file: pathlib.Path, digest: str, part: Part) -> None:
    """Writes a part file, which appears whole or not at all."""
    checksums = {name: _checksum(array) for name, array in part.arrays.items()}
    about = {"digest": digest, "facts": part.facts, "arrays": checksums}
    facts = json.dumps(about)
    with whole(file) as unfinished, open(unfinished, "wb") as handle:
        np.savez(handle, facts=np.frombuffer(facts.encode(), np.uint8), **part.arrays)


def read_part(file: pathlib.Path, digest: str) -> Part | None:
    """A part, or None (and a line in the log) if it is not that of these items."""
    try:
        # numpy leaves a file open that it opened itself and cannot read.
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as saved:
            facts = strict_json.loads(saved["facts"].tobytes())
            if facts["digest"] != digest:
                _LOG.warning("%s is made of other text and not used", file)
                return None
            arrays = {name: saved[name] for name in saved.files if name != "facts"}
            # The archive's own checksums do not go over names and types.
            if {n: _checksum(array) for n, array in arrays.items()} != facts["arrays"]:
                raise ValueError("an array differs from its checksum")
            return Part(facts["facts"], arrays)
    except _UNREADABLE as e:
        _LOG.warning("%s is damaged (%s) and not used", file, e)
        return None


def _checksum(array: np.ndarray) -> int:
    about = f"{array.dtype.str} {array.shape}".encode()
    return zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(about))


@contextlib.contextmanager
def work_folder(folder: pathlib.Path) -> Iterator[None]:
    """Makes a folder that one process at a time works in; the others wait.

    In the end it is removed, unless an error leaves finished parts in it.
    """
    lock = _hold(folder)
    try:
        with naming(folder):
            yield
    except BaseException:
        if not any(folder.glob("[0-9]*.npz")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.close()


def _hold(folder: pathlib.Path, *, waits: bool = True) -> TextIO:
    """The open lock file of a folder that nobody else holds.

    Raises:
      BlockingIOError: if another process has it, and it is not to be waited for.
    """
    import fcntl  # a killed process loses such a lock by itself

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = open(folder / _LOCK, "w")
        except FileNotFoundError:
            continue  # its holder removed the folder just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                lock.close()
                raise
            _LOG.warning("another process works in %s: waiting for it", folder)
            # Without LOCK_NB: this waits.
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_at(lock.fileno(), folder / _LOCK):
            return lock
        lock.close()


def remove_work_of(path: pathlib.Path) -> None:
    """Removes what killed runs left beside a folder that is finished.

    Args:
      path: of the finished folder; runs that want the same one with other arguments
        work in hidden folders beside it, `.NAME-DIGEST`. Those that do now keep theirs.
    """
    work_name = re.compile(rf"\.{re.escape(path.name)}-(\d+-)?[0-9a-f]{{12}}")
    for folder in path.parent.iterdir():
        if not (work_name.fullmatch(folder.name) and (folder / _LOCK).is_file()):
            continue
        try:
            lock = _hold(folder, waits=False)
        except OSError:  # somebody works there, or it is another user's
            continue
        with lock:
            shutil.rmtree(folder, ignore_errors=True)


# --- processes ------------------------------------------------------------------------


class _Here(Executor):
    """This process, which makes a part when it is waited for."""

    def __init__(self, recipe: Recipe):
        self.ahead, self._make_fn = 0, recipe.make_fn

    def submit(
        self, file: pathlib.Path, digest: str, items: list[Item]
    ) -> Callable[[], None]:
        return lambda: write_part(file, digest, self._make_fn(items))


class _Pool(Executor):
    """Processes of this machine, which write their files themselves."""

    def __init__(self, workers: int, recipe: Recipe):
        self.ahead = 2 * workers
        self.pool = concurrent.futures.ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),  # forks deadlock with jax's threads
            initializer=_start_worker,
            initargs=(registry.named_modules(), recipe.open_fn, recipe.open_args),
        )

    def submit(
        self, file: pathlib.Path, digest: str, items: list[Item]
    ) -> Callable[[], None]:
        return self.pool.submit(_work, file, digest, items).result


@contextlib.contextmanager
def _executor(workers: int | str, recipe: Recipe) -> Iterator[Executor]:
    if isinstance(workers, str):
        from etc_jax.data import cluster

        with cluster.opened(workers, recipe) as executor:
            yield executor
        return
    if workers < 0:
        raise ValueError(f"workers is {workers}, expected 0 (this process) or more")
    if not workers:
        yield _Here(recipe)
        return
    executor = _Pool(workers, recipe)
    try:
        yield executor
    except concurrent.futures.BrokenExecutor as e:
        raise WorkerDiedError(
            f"one of {workers} tokenising processes ended abruptly (did the machine "
            "run out of memory? is the script that starts them guarded by "
            '`if __name__ == "__main__"`?); finished parts are kept: correct it, or '
            "lower workers, and run again"
        ) from e
    finally:
        executor.pool.shutdown(cancel_futures=True)


_make_fn: MakeFn | None = None  # of this worker process


def _start_worker(
    plugins: Sequence[str], open_fn: Callable[..., MakeFn], open_args: tuple[Any, ...]
) -> None:
    global _make_fn
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends them all
    # One thread a process: the processes themselves are what runs in parallel.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    registry.import_plugins(plugins)
    _make_fn = open_fn(*open_args)


def _work(file: pathlib.Path, digest: str, items: list[Item]) -> None:
    write_part(file, digest, _make_fn(items))
