"""Saving and restoring the state of a run.

The state is copied from the devices while the caller waits; everything else is done
in the background: Orbax writes and commits, and then process 0 lists the files
(folder.py). No collective of the devices runs in the background. How a save
went is agreed upon at the next call of `save` or `close`.
"""

import concurrent.futures
import dataclasses
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from etils import epath

from etc_jax.base import stores
from etc_jax.config import CheckpointConfig
from etc_jax.training.checkpoints.folder import CheckpointFolder, read_data
from etc_jax.training.checkpoints.layout import check_same_leaves, leaves_of
from etc_jax.training.checkpoints.orbax_io import (
    Writer,
    cause,
    read_state,
    saved_leaves,
    storage_errors,
)
from etc_jax.training.checkpoints.retention import Retention
from etc_jax.training.errors import RunError
from etc_jax.training.hosts import distributed

_LOG = logging.getLogger(__name__)

# Pauses between the attempts at the last save of a run.
LAST_SAVE_PAUSES_SECS = (5.0, 20.0, 60.0)


class SaveError(RunError):
    """The last state of a run could not be saved."""


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a run begins with: what a checkpoint holds, or a fresh state.

    Attributes:
      state: pytree of arrays.
      data: the JSON saved beside it.
      evaluation: metrics of its step; {} if its evaluation was not finished.
      is_saved: False for a fresh state.
    """

    state: Any
    data: dict[str, Any]
    evaluation: dict[str, float]
    is_saved: bool = True


def from_first(decide: Callable[[], Any]) -> Any:
    """What `decide()` returns on process 0, on every process.

    Args:
      decide: called on process 0 only; returns what JSON holds.

    Raises:
      Exception: what `decide` raises; on the other processes a `PeerError` with its
        text and exit code.
    """
    only_first = decide if distributed.is_first() else lambda: None
    return next(distributed.exchange(distributed.together(only_first)))


class Checkpointer:
    """The checkpoints of one workdir; every process calls it in the same way.

    A save that fails is logged and counted, and does not raise: see `save`.

    Args:
      workdir: the run's folder; checkpoints are in `checkpoints/<step>`.
      keep: how many of the newest stay.
      **more: the other fields of `Retention`.

    Attributes:
      blocked_secs: time that the caller has waited for saves so far.
      failed_saves: how many saves have failed so far.
    """

    def __init__(self, workdir: epath.PathLike, *, keep: int, **more):
        self.blocked_secs = 0.0
        self.failed_saves = 0
        self._retention = Retention(keep=keep, **more)
        self._folder = CheckpointFolder(epath.Path(workdir))
        self._closed = False
        self._begun: int | None = None  # the save whose end is not agreed upon
        self._work: concurrent.futures.Future | None = None
        self._work_on_evaluation: concurrent.futures.Future | None = None
        self._fault: str | None = None
        from_first(self._folder.prepare)
        self._writer = Writer()
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")

    @classmethod
    def from_config(
        cls, config: CheckpointConfig, workdir: epath.PathLike
    ) -> "Checkpointer":
        """With what the config says about which checkpoints stay."""
        names = [field.name for field in dataclasses.fields(Retention)]
        return cls(workdir, **{name: getattr(config, name) for name in names})

    @property
    def last_step(self) -> int | None:
        """The newest finished step, whether or not it is still whole."""
        return self._folder.last_step

    def save(
        self, state: Any, data: dict[str, Any], *, step: int, last: bool = False
    ) -> None:
        """Starts saving; returns as soon as the state is copied from the devices.

        If it fails, now or later, that is an ERROR in the log and counted in
        `failed_saves`; what it has left is removed, older checkpoints stay as they are,
        and the next `save` is as if nothing had been.

        Args:
          state: pytree of arrays.
          data: JSON beside it; `evaluation` may hold the metrics of this step.
          step: names the checkpoint.
          last: waits until everything is on disk, and tries again if it fails.

        Raises:
          TypeError, ValueError: if `data` is not JSON.
          SaveError: if this is the last save and all attempts have failed.
        """
        json.dumps(data)
        began = time.perf_counter()
        try:
            self._settle()
            if last:
                self._save_surely(state, data, step)
            else:
                self._start(state, data, step)
        finally:
            self.blocked_secs += time.perf_counter() - began

    def _save_surely(self, state: Any, data: dict[str, Any], step: int) -> None:
        attempts = len(LAST_SAVE_PAUSES_SECS) + 1
        for attempt, pause in enumerate((*LAST_SAVE_PAUSES_SECS, None), 1):
            self._start(state, data, step)
            fault = self._settle()
            if fault is None:
                return
            if pause is not None:
                _LOG.error(
                    "the last save of the run: trying again in %g s (attempt %d of %d)",
                    pause,
                    attempt + 1,
                    attempts,
                )
                time.sleep(pause)
        raise SaveError(self._lost(step, f"{fault} ({attempts} attempts)"))

    def _lost(self, step: int, fault: str) -> str:
        return (
            f"the state of step {step} could not be saved in {self._folder.root}: "
            f"{fault}. {self._newest()}. Make space or look at the storage, then give "
            "the same command again: it continues from there"
        )

    def _newest(self) -> str:
        try:
            last = self.last_step
        except stores.errors() as error:
            return f"Which checkpoint is the newest cannot be read ({cause(error)})"
        if last is None:
            return "No checkpoint has been finished yet"
        return f"The newest finished checkpoint is of step {last}"

    def _start(self, state: Any, data: dict[str, Any], step: int) -> None:
        """The part of a save that the caller waits for."""
        self._begun = step
        try:
            self._writer.start(self._folder.path(step), state, data)
        except storage_errors() as error:
            self._failed(error)
            return
        self._work = self._worker.submit(self._complete, step)

    def _complete(self, step: int) -> None:
        """The rest, in the background."""
        self._writer.wait()
        if distributed.is_first():
            self._folder.finish(step, self._retention)

    def add_evaluation(self, step: int, evaluation: dict[str, float]) -> None:
        """Adds the metrics of a step to its checkpoint, once that is finished.

        In the background; an error is logged only. Without its metrics a checkpoint is
        not ranked, and a run that is resumed there evaluates it again.
        """
        if distributed.is_first():
            self._work_on_evaluation = self._worker.submit(
                self._add_evaluation, step, evaluation
            )

    def _add_evaluation(self, step: int, evaluation: dict[str, float]) -> None:
        try:
            self._folder.add_evaluation(step, evaluation, self._retention)
        except stores.errors() as error:
            _LOG.error("checkpoint %d has not got its metrics: %s", step, error)

    def wait(self) -> bool:
        """Waits for the save that was begun; False if it has failed."""
        began = time.perf_counter()
        fault = self._settle()
        self.blocked_secs += time.perf_counter() - began
        return fault is None

    def poll(self) -> None:
        """Notices a save that has failed by now; call it once a step."""
        if self._work is not None and self._work.done():
            self._notice()

    def _notice(self) -> None:
        work, self._work = self._work, None
        try:
            work.result()
        except storage_errors() as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._fault = cause(error)
        if distributed.is_first():
            self._report(self._fault)
            self._folder.remove_remains(self._begun)

    def _report(self, fault: str) -> None:
        self.failed_saves += 1
        _LOG.error(
            "SAVE FAILED at step %d: %s. The run goes on; the next save that is due "
            "tries again. %s",
            self._begun,
            fault,
            self._newest(),
        )

    def _settle(self) -> str | None:
        """Waits for the save that was begun; what went wrong, the same everywhere."""
        if self._begun is None:
            return None
        if self._work is not None:
            self._notice()
        local_fault, self._fault = self._fault, None
        # Process 0 has listed the files or has not: that alone decides.
        fault, *_ = distributed.exchange(local_fault)
        if fault is not None:
            self._writer.close()
            self._writer = Writer()
            if not distributed.is_first():
                self._report(fault)
            else:  # once more, as no thread of Orbax makes folders any longer
                self._folder.remove_remains(self._begun)
        elif local_fault is not None:
            _LOG.warning(
                "checkpoint %d is whole, but here: %s", self._begun, local_fault
            )
        self._begun = None
        return fault

    def restore(
        self,
        abstract_state: Any,
        *,
        check_fn: Callable[[dict[str, Any]], None] = lambda data: None,
    ) -> Restored | None:
        """The newest whole checkpoint, or None if none was ever finished.

        Process 0 looks for it and sets bad ones aside; all read the one it names.

        Args:
          abstract_state: `jax.ShapeDtypeStruct`s with the shardings to restore to.
          check_fn: called with the JSON before the arrays are looked at; raises if
            the checkpoint is not to be used.

        Raises:
          UserError: if a whole checkpoint is of another tree, shapes or dtypes.
          CorruptCheckpointError: if checkpoints were finished and none is whole.
          OSError: if the storage cannot be read.
        """
        step = from_first(self._folder.choose)
        if step is None:
            return None
        folder = self._folder.path(step)
        evaluation = from_first(lambda: self._folder.evaluation(step))

        def read() -> Restored:
            data = read_data(folder)
            check_fn(data)
            wanted = leaves_of(abstract_state)
            check_same_leaves(saved_leaves(folder), wanted, str(folder))
            return Restored(read_state(folder, abstract_state), data, evaluation)

        return distributed.together(read)

    def close(self) -> None:
        """Waits until everything is on disk.

        Raises:
          SaveError: if the save that was begun last has failed.
        """
        if self._closed:
            return
        step = self._begun
        try:
            fault = self._settle()
        finally:
            self._shut()
        if fault is not None:
            raise SaveError(self._lost(step, fault))

    def _shut(self) -> None:
        self._closed = True
        self._worker.shutdown()
        self._writer.close()
        if self._work_on_evaluation is not None:
            self._work_on_evaluation.result()

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, kind, *exc) -> None:
        if kind is None:
            self.close()
        elif not self._closed:
            # The other processes may be elsewhere: nothing is agreed upon any more.
            try:
                if self._work is not None:
                    self._notice()
            finally:
                self._shut()
