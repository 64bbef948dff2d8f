"""Metrics for TensorBoard, beside the JSON lines; needs the extra `tensorboard`."""

import contextlib
import importlib
import logging
import math
import numbers
import queue
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
from etils import epath

from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)

FOLDER = "tensorboard"
# Reports that wait for the disk, and how long the end of a run waits for them.
MOST_WAITING = 100
CLOSE_SECS = 10.0


def require() -> ModuleType:
    """The package tensorboardX.

    Raises:
      UserError: if it is not installed.
    """
    try:
        return importlib.import_module("tensorboardX")
    except ImportError as error:
        raise UserError(
            "train.tensorboard is True, but tensorboardX cannot be imported "
            f"({error}); install the extra: pip install -e "
            "'.[tensorboard]', or set it to False"
        ) from error


class TensorBoard:
    """Writes events to `workdir/tensorboard`, on process 0 alone.

    In a thread of its own: where the disk is full tensorboardX waits for ever for a
    thread of its own that has died. Reports are then lost and counted, and the run goes
    on.

    Args:
      workdir: the run's folder.
      resume_step: the step that the run continues from; later events are hidden.

    Attributes:
      lost_reports: how many have come to nothing so far; in full after `close`.
    """

    def __init__(self, workdir: epath.PathLike, *, resume_step: int = 0):
        self.lost_reports = 0
        self._thread = None
        if jax.process_index() != 0:
            return
        folder = str(epath.Path(workdir) / FOLDER)
        options = {"logdir": folder, "purge_step": resume_step + 1}
        self._reports: queue.Queue = queue.Queue(maxsize=MOST_WAITING)
        self._thread = threading.Thread(
            target=self._run, args=(require(), options), name="tensorboard", daemon=True
        )
        self._thread.start()

    def _run(self, package: ModuleType, options: Mapping[str, Any]) -> None:
        try:
            writer = package.SummaryWriter(**options)
            while (report := self._reports.get()) is not None:
                kind, step, values = report
                for name, value in values.items():
                    writer.add_scalar(f"{kind}/{name}", value, step)
                writer.flush()
            writer.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
            _LOG.error("TENSORBOARD has failed: %s. The run goes on without it", error)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds the finite numbers among `values` as `kind/name`."""
        if self._thread is None:
            return
        finite = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, numbers.Real) and math.isfinite(value)
        }
        try:
            if not self._thread.is_alive():
                raise queue.Full
            self._reports.put_nowait((kind, step, finite))
        except queue.Full:
            self.lost_reports += 1
            if self.lost_reports == 1:
                _LOG.error("TENSORBOARD does not take reports, from step %d on", step)

    def close(self) -> None:
        """Ends the file, if that takes no longer than `CLOSE_SECS`."""
        if self._thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._reports.put_nowait(None)
        self._thread.join(CLOSE_SECS)
        self.lost_reports += sum(x is not None for x in list(self._reports.queue))
        if self.lost_reports:
            _LOG.error("%d reports for TensorBoard are lost", self.lost_reports)
