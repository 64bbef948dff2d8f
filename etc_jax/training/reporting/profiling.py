"""The profiler, for a few steps of a run."""

import logging
from typing import Any

import jax
from etils import epath

_LOG = logging.getLogger(__name__)

FOLDER = "profile"


class ProfileWindow:
    """Traces the updates `start` to `start + steps` into `workdir/profile`.

    Open the folder with TensorBoard's profile plugin or xprof. A run that is resumed
    inside the window, or after it, makes no trace. A profiler that fails (a full disk,
    another trace under way) is an error in the log, not the end of the run.

    Args:
      workdir: the run's folder.
      start: updates done before the trace begins; None: no trace.
      steps: updates in the trace.
    """

    def __init__(self, workdir: epath.PathLike, *, start: int | None, steps: int):
        self._folder = epath.Path(workdir) / FOLDER
        self._start, self._steps = start, steps
        self._tracing = False

    def before(self, step: int, state: Any) -> None:
        """To be called before each update.

        Args:
          step: updates done so far.
          state: waited for, so that only the window's own work is traced.
        """
        if step == self._start:
            jax.block_until_ready(state)
            try:
                jax.profiler.start_trace(str(self._folder))
            except (OSError, RuntimeError, ValueError) as error:
                _LOG.error("PROFILE NOT MADE: %s. The run goes on", error)
            else:
                self._tracing = True

    def after(self, step: int, state: Any) -> None:
        """To be called after each update; `step` counts it."""
        if self._tracing and step >= self._start + self._steps:
            jax.block_until_ready(state)
            self.close()

    def close(self) -> None:
        """Ends the trace, if one is under way."""
        if self._tracing:
            self._tracing = False
            try:
                jax.profiler.stop_trace()
            except (OSError, RuntimeError, ValueError) as error:
                _LOG.error("PROFILE NOT WRITTEN: %s. The run goes on", error)
            else:
                _LOG.info("profile written to %s", self._folder)
