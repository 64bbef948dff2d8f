"""The only module that knows Orbax: one checkpoint is written, or read."""

import concurrent.futures
import itertools
import logging
import threading
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from etc_jax.base import stores
from etc_jax.training.checkpoints.folder import DATA_FILE, DATA_ITEM
from etc_jax.training.checkpoints.layout import leaves_of
from etc_jax.training.checkpoints.meeting import Meeting

_LOG = logging.getLogger(__name__)

# How long the processes of a save wait for each other, before it counts as failed.
TIMEOUT_SECS = 600
# How long Orbax may take to end here, when a save has failed on another process.
STUCK_SECS = 30

_STATE_ITEM = "state"
_names = itertools.count()


def storage_errors() -> tuple[type[Exception], ...]:
    """What a save may raise. Anything else is a bug and ends the run."""
    # Tensorstore's are ValueErrors, those of waiting for another process RuntimeErrors.
    return *stores.errors(), ValueError, RuntimeError


class Writer:
    """Orbax, for as long as no save fails: then it is replaced.

    The processes of a save that failed may have left each other at any point, and a
    name that they have waited under cannot be used again.
    """

    def __init__(self):
        self._is_stuck = False
        name = f"checkpoint_{next(_names)}"
        self._meeting = Meeting(name)
        count = jax.process_count()
        processes = ocp.options.MultiprocessingOptions(
            primary_host=0,
            # With these named, Orbax waits through the coordinator and with a
            # time-out, where else it would wait through the devices and without.
            active_processes=set(range(count)) if count > 1 else None,
            barrier_sync_key_prefix=name,
        )
        options = {"multiprocessing_options": processes}
        handlers = {
            _STATE_ITEM: ocp.StandardCheckpointHandler(**options),
            DATA_ITEM: ocp.JsonCheckpointHandler(DATA_FILE, **options),
        }
        self._orbax = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(
                composite_options=ocp.CompositeOptions(**options), **handlers
            ),
            async_options=ocp.options.AsyncOptions(
                timeout_secs=TIMEOUT_SECS,
                barrier_sync_fn=self._meeting.wait if count > 1 else None,
            ),
            **options,
        )

    def start(self, folder: epath.Path, state: Any, data: dict[str, Any]) -> None:
        """Returns when the state is copied from the devices."""
        items = {
            _STATE_ITEM: ocp.args.StandardSave(state),
            DATA_ITEM: ocp.args.JsonSave(data),
        }
        try:
            self._orbax.save(folder, args=ocp.args.Composite(**items), force=True)
        except Exception as error:
            self._meeting.call_off(cause(error))
            raise

    def wait(self) -> None:
        """Returns when the checkpoint is committed.

        Raises:
          RuntimeError: a while after another process has called the save off.
        """
        end: concurrent.futures.Future = concurrent.futures.Future()
        waits = threading.Thread(target=self._wait_for_orbax, args=(end,), daemon=True)
        waits.start()
        while not _done_within(1.0, end):
            if reason := self._meeting.called_off():
                # Orbax may wait minutes for what the other has not done. Better end
                # without it, but not while it is still writing here, if possible.
                self._is_stuck = not _done_within(STUCK_SECS, end)
                raise RuntimeError(reason)
        end.result()

    def _wait_for_orbax(self, end: concurrent.futures.Future) -> None:
        try:
            self._orbax.wait_until_finished()
        except Exception as error:
            end.set_exception(error)
            self._meeting.call_off(cause(error))
        else:
            end.set_result(None)

    def close(self) -> None:
        """Ends Orbax's threads, unless they are stuck: they end by themselves then.

        What went wrong with a save was known before: `start` or `wait` has raised it,
        and Orbax raises it again here.
        """
        if self._is_stuck:
            return
        try:
            self._orbax.close()
        except storage_errors() as error:
            _LOG.warning("Orbax has not ended in order: %s", cause(error))


def _done_within(secs: float, future: concurrent.futures.Future) -> bool:
    return bool(concurrent.futures.wait([future], timeout=secs).done)


def cause(error: Exception) -> str:
    """What went wrong, in one line."""
    # Only the first line: tensorstore adds where in its source it happened.
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def saved_leaves(folder: epath.Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """{path: (shape, dtype)} of the state in the folder of one checkpoint."""
    metadata = ocp.StandardCheckpointHandler().metadata(folder / _STATE_ITEM)
    return leaves_of(getattr(metadata, "tree", metadata))


def read_state(folder: epath.Path, abstract: Any, *, part: bool = False) -> Any:
    """The state of one checkpoint; neither files nor shapes are looked at here.

    Args:
      folder: of the checkpoint.
      abstract: `jax.ShapeDtypeStruct`s with shapes and dtypes as saved, and shardings
        as wanted.
      part: whether `abstract` has, of the nested dicts of the state, only some.
    """
    args = ocp.args.PyTreeRestore(
        abstract,
        restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
        partial_restore=part,
    )
    # Not through a checkpointer: those make processes wait for each other.
    return ocp.PyTreeCheckpointHandler().restore(folder / _STATE_ITEM, args=args)
