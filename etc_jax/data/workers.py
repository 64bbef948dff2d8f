"""Batches built ahead in processes of their own, in order.

    with WorkerReader(reader, num_workers=4) as workers:
        batch = workers.batch_at(step)

A batch stays a function of the step, so resuming needs no state of the workers, and
any number of them gives the same batches. The workers get the reader, not its data:
arrays that lie in files are mapped there anew, and other large ones are written to a
temporary folder once and mapped, so that all workers share one copy in memory.

This is the standard library's process pool. grain 0.2.18 was tried: its workers fail
unless the program has parsed absl flags, read ahead from one starting point only, and
get the reader pickled whole, so that each holds a copy of arrays mapped from files.
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import io
import mmap
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import shutil
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

import numpy as np

from etc_jax.base import registry
from etc_jax.base.rules import at_least

# Arrays of at least so many bytes are mapped by the workers, not copied.
SHARED_BYTES = 1 << 20
AHEAD_PER_WORKER = 2
# How long a worker goes on after SIGTERM. Not for ever: by this signal the pool ends
# the other workers when one has died.
GRACE_SECS = 10.0


class Reader(Protocol):
    """What builds batches, such as `pretraining.PretrainingReader`."""

    def batch_at(self, step: int, rows: Any = None) -> Any:
        """The batch of one step, a function of its arguments."""


class WorkerReader:
    """`batch_at` of a reader, with the next steps being built in other processes.

    Asking for steps in order, with the same rows, is quick; any other request starts
    over from its step. An exception of the reader is raised by the `batch_at` of its
    step. The reader's own counts stay at 0 here: overflow is in the batches.

    The workers are started by "spawn": a script that makes one needs the usual
    `if __name__ == "__main__":`. Close it, or use `with`.
    """

    def __init__(self, reader: Reader, *, num_workers: int, ahead: int | None = None):
        """Starts the workers.

        Args:
          reader: must be possible to pickle.
          num_workers: processes, 1 or more.
          ahead: batches that are built or wait ahead of the one asked for; None: two
            for each worker.

        Raises:
          ValueError: if a number is out of range.
        """
        if num_workers < 1:
            raise ValueError(
                f"num_workers is {num_workers}, expected 1 or more; without workers, "
                "use the reader itself"
            )
        self._ahead = AHEAD_PER_WORKER * num_workers if ahead is None else ahead
        at_least(1).check(ahead=self._ahead)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="etc_jax-workers-"))
        self._pending: collections.deque[tuple[int, concurrent.futures.Future]] = (
            collections.deque()
        )
        self._rows: Any = None
        self._pool = concurrent.futures.ProcessPoolExecutor(
            num_workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(registry.named_modules(), dumps(reader, folder)),
        )
        # Also at the end of the program, if nobody closes.
        self._finalizer = weakref.finalize(self, _stop, self._pool, folder)

    def batch_at(self, step: int, rows: Any = None) -> Any:
        """The batch of one step; see `pretraining.PretrainingReader.batch_at`.

        Raises:
          RuntimeError: if a worker died.
        """
        try:
            return self._next(step, rows)
        except BrokenProcessPool as error:
            raise RuntimeError(
                f"a process that builds batches died before step {step} was made: not "
                "enough memory, a signal, or a script without "
                'if __name__ == "__main__": (its own error is above)'
            ) from error

    def _next(self, step: int, rows: Any) -> Any:
        expected = self._pending[0][0] if self._pending else None
        # Arrays have no single answer to ==.
        same_rows = pickle.dumps(rows) == pickle.dumps(self._rows)
        if step != expected or not same_rows:
            # What was built ahead is of other steps.
            while self._pending:
                self._pending.popleft()[1].cancel()
            self._rows = rows
        first = self._pending[-1][0] + 1 if self._pending else step
        for later in range(first, step + self._ahead + 1):
            future = self._pool.submit(_build, later, self._rows)
            self._pending.append((later, future))
        return self._pending.popleft()[1].result()

    def close(self) -> None:
        """Ends the workers; batches that wait are dropped."""
        self._pending.clear()
        self._finalizer()

    def __enter__(self) -> WorkerReader:
        return self

    def __exit__(self, *exc) -> None:
        self.close()


def ahead(reader: Reader, num_workers: int) -> Reader:
    """The reader, or one that builds its batches ahead in `num_workers` processes."""
    return WorkerReader(reader, num_workers=num_workers) if num_workers else reader


def _stop(pool: concurrent.futures.ProcessPoolExecutor, folder: pathlib.Path) -> None:
    pool.shutdown(cancel_futures=True)
    shutil.rmtree(folder)


class _Pickler(pickle.Pickler):
    """Pickles with files in the place of large arrays."""

    def __init__(self, file: io.BytesIO, folder: pathlib.Path):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._folder, self._saved = folder, 0

    def reducer_override(self, obj: Any) -> Any:
        # What a reader keeps at hand is made anew: a cache cannot be pickled.
        if isinstance(obj, functools._lru_cache_wrapper):
            size = obj.cache_parameters()["maxsize"]
            return _cached, (size, obj.__wrapped__)
        if isinstance(obj, np.memmap) and isinstance(obj.base, mmap.mmap):
            # A slice of a map is a map of the slice: the file, from its offset on.
            order = "F" if obj.flags.f_contiguous and obj.ndim > 1 else "C"
            return np.memmap, (
                obj.filename,
                obj.dtype,
                "r",
                obj.offset,
                obj.shape,
                order,
            )
        if isinstance(obj, np.ndarray) and obj.nbytes >= SHARED_BYTES:
            path = self._folder / f"{self._saved}.npy"
            self._saved += 1
            np.save(path, obj, allow_pickle=False)
            return _load, (os.fspath(path),)
        return NotImplemented


def dumps(obj: Any, folder: pathlib.Path) -> bytes:
    """Pickles an object; what it holds in large arrays goes to files.

    Args:
      obj: to pickle.
      folder: where arrays are written that are not mapped from a file already; it must
        stay as long as what is unpickled.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, folder).dump(obj)
    return buffer.getvalue()


def _load(path: str) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _cached(size: int | None, function: Callable) -> Callable:
    return functools.lru_cache(maxsize=size)(function)


_reader: Reader | None = None  # of this worker process


def _start(plugins: Sequence[str], pickled: bytes) -> None:
    """Makes a process a worker, with what its parent was told to import."""
    global _reader
    # The signals of a terminal or a cluster reach all processes: what to do about them
    # is for the parent to decide, which may want a last batch.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _die_later)
    end_with_parent()
    registry.import_plugins(plugins)
    _reader = pickle.loads(pickled)


def _die_later(*_) -> None:
    timer = threading.Timer(GRACE_SECS, os._exit, (1,))
    timer.daemon = True  # it must not hold up an orderly end
    timer.start()


def end_with_parent() -> None:
    """Ends this worker as soon as its parent has ended, from now on.

    A parent that was killed cannot close its workers. They would wait forever, as each
    holds both ends of its own queue.
    """

    def wait() -> None:
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _build(step: int, rows: Any) -> Any:
    return _reader.batch_at(step, rows)
