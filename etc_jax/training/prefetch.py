"""Batches built ahead in one background thread, in order."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class Prefetcher:
    """Calls `make(step)` for start, start + 1, ... stop - 1, a few steps ahead.

    An exception of `make` is raised again by the `get` of that step. Close it (or use
    `with`): the thread ends after the batch it is building.

    Args:
      make: step -> batch; called from one thread, in order.
      start: first step.
      stop: one past the last step.
      ahead: batches that may wait.

    Attributes:
      waited_secs: time that `get` has spent waiting so far.
    """

    def __init__(
        self, make: Callable[[int], Any], *, start: int, stop: int, ahead: int
    ):
        self.waited_secs = 0.0
        self._queue: queue.Queue = queue.Queue(maxsize=ahead)
        self._closed = threading.Event()
        self._steps = range(start, stop)
        self._make = make
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for step in self._steps:
            try:
                item = (step, self._make(step), None)
            except BaseException as error:  # noqa: BLE001 - raised again by `get`
                item = (step, None, error)
            if not self._put(item) or item[2] is not None:
                return

    def _put(self, item: tuple) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def get(self, step: int) -> Any:
        """The batch of `step`; steps must be asked for in order, each once."""
        if step not in self._steps:
            raise IndexError(f"batch {step} is not among {self._steps}")
        began = time.perf_counter()
        got, batch, error = self._queue.get()
        self.waited_secs += time.perf_counter() - began
        if error is not None:
            raise error
        if got != step:
            raise AssertionError(f"asked for batch {step}, but {got} is next")
        return batch

    def close(self) -> None:
        """Ends the thread; batches still waiting are dropped."""
        self._closed.set()
        self._thread.join()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *exc) -> None:
        self.close()
