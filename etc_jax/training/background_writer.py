"""Writes metrics in a thread of its own, which may fail or hang: the run goes on."""

import abc
import contextlib
import logging
import math
import numbers
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax

_LOG = logging.getLogger(__name__)

# Reports that wait for the disk or the network, and how long the end of a run waits.
MOST_WAITING = 100
CLOSE_SECS = 10.0


class Sink(abc.ABC):
    """Where the reports go; all is called from the thread alone."""

    @abc.abstractmethod
    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Takes finite numbers, named as "train/loss"."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it."""


class BackgroundWriter:
    """Gives reports to a sink, on process 0 alone.

    In a thread of its own: a sink may wait for ever, as for a network, or for a thread
    that died of a full disk. Reports are then lost and counted, and the run goes on.

    Attributes:
      lost_reports: how many have come to nothing so far; in full after `close`.
    """

    def __init__(self, name: str, open_sink: Callable[[], Sink]):
        """See the class.

        Args:
          name: for messages.
          open_sink: called in the thread.
        """
        self.lost_reports = 0
        self._name, self._open = name, open_sink
        self._thread = None
        if jax.process_index() != 0:
            return
        self._reports: queue.Queue = queue.Queue(maxsize=MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            sink = self._open()
            while (report := self._reports.get()) is not None:
                sink.add(*report)
            sink.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
            _LOG.error("%s HAS FAILED: %s. The run goes on without it", self, error)

    def __str__(self) -> str:
        return self._name

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds the finite numbers among `values` as `kind/name`."""
        if self._thread is None:
            return
        finite = {
            f"{kind}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, numbers.Real) and math.isfinite(value)
        }
        try:
            if not self._thread.is_alive():
                raise queue.Full
            self._reports.put_nowait((step, finite))
        except queue.Full:
            self.lost_reports += 1
            if self.lost_reports == 1:
                _LOG.error("%s TAKES NO REPORTS from step %d on", self, step)

    def close(self) -> None:
        """Ends the sink, if that takes no longer than `CLOSE_SECS`."""
        if self._thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._reports.put_nowait(None)
        self._thread.join(CLOSE_SECS)
        self.lost_reports += sum(x is not None for x in list(self._reports.queue))
        if self.lost_reports:
            _LOG.error("%d reports for %s are lost", self.lost_reports, self)
