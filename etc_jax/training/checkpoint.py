"""Saving and restoring: the only module that knows Orbax.

A checkpoint is finished when its manifest is written, after Orbax's commit. A
finished one is verified before it is read; a bad one is named, set aside, and the one
before it is used. One without a manifest was cut short by a crash and is removed.
"""

import concurrent.futures
import dataclasses
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from etc_jax.sharding import path_of
from etc_jax.training import manifest
from etc_jax.training.errors import CorruptCheckpointError, UserError

_LOG = logging.getLogger(__name__)

_LAST = "last_checkpoint.json"
_DOOMED = ".deleting"


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a checkpoint holds: the state, and the JSON saved beside it."""

    state: Any
    data: dict[str, Any]


class Checkpointer:
    """The checkpoints of one workdir.

    Args:
      workdir: the run's folder; checkpoints are in `checkpoints/<step>`.
      keep: how many stay.

    Attributes:
      blocked_secs: time that the caller has waited for saves so far.
    """

    def __init__(self, workdir: epath.PathLike, *, keep: int):
        self.blocked_secs = 0.0
        self._workdir = epath.Path(workdir)
        self._root = self._workdir / "checkpoints"
        self._keep = keep
        self._closed = False
        self._unlisted: int | None = None  # saved, but its manifest is not begun
        self._listing: concurrent.futures.Future | None = None
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "manifest")
        self._open()

    def _open(self) -> None:
        if self._root.exists():
            for leftover in self._root.glob(f"*{_DOOMED}"):
                leftover.rmtree()
        self._manager = ocp.CheckpointManager(
            self._root,
            item_handlers={
                "state": ocp.StandardCheckpointHandler(),
                "data": ocp.JsonCheckpointHandler(),
            },
            # Orbax would delete old checkpoints before the new one has its manifest.
            options=ocp.CheckpointManagerOptions(
                max_to_keep=None, cleanup_tmp_directories=True
            ),
        )

    @property
    def last_step(self) -> int | None:
        """The newest finished step, whether or not it is still whole."""
        record = self._workdir / _LAST
        if not record.exists():
            return None
        try:
            return int(json.loads(record.read_text())["step"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptCheckpointError(f"{record} cannot be read: {error}") from error

    def save(self, state: Any, data: dict[str, Any], *, step: int) -> None:
        """Starts saving; returns as soon as the state is copied from the devices.

        Raises:
          OSError, ValueError: if this save, or the one before it, failed.
        """
        began = time.perf_counter()
        self._finish()
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), data=ocp.args.JsonSave(data)
            ),
        )
        self._unlisted = step
        self.blocked_secs += time.perf_counter() - began

    def poll(self) -> None:
        """Lists the files of a save that is done by now; call it once a step."""
        if self._unlisted is not None and not self._manager.is_saving_in_progress():
            self._begin_listing()

    def _begin_listing(self) -> None:
        self._manager.wait_until_finished()  # raises what went wrong in the background
        step, self._unlisted = self._unlisted, None
        self._listing = self._worker.submit(self._list_files, step)

    def _list_files(self, step: int) -> None:
        manifest.write(self._root / str(step))
        manifest.write_atomically(self._workdir / _LAST, json.dumps({"step": step}))
        for old in self._steps()[self._keep :]:
            # A crash in the middle must not leave half a checkpoint under its name.
            doomed = self._root / f"{old}{_DOOMED}"
            (self._root / str(old)).rename(doomed)
            doomed.rmtree()

    def _finish(self) -> None:
        if self._unlisted is not None:
            self._begin_listing()
        if self._listing is not None:
            listing, self._listing = self._listing, None
            listing.result()

    def restore(
        self,
        abstract_state: Any,
        *,
        check_fn: Callable[[dict[str, Any]], None] = lambda data: None,
    ) -> Restored | None:
        """The newest whole checkpoint, or None if none was ever finished.

        Args:
          abstract_state: `jax.ShapeDtypeStruct`s with the shardings to restore to.
          check_fn: called with the JSON before the arrays are looked at; raises if
            the checkpoint is not to be used.

        Raises:
          UserError: if a whole checkpoint is of another tree, shapes or dtypes.
          CorruptCheckpointError: if checkpoints were finished and none is whole.
        """
        last = self.last_step
        faults = [] if last in self._steps() + [None] else [f"step {last}: is missing"]
        found = None
        for step in self._steps():
            if self._removed_as_cut_short(step):
                continue
            fault = self._set_aside_unless_whole(step)
            if fault is None:
                found = step
                break
            faults.append(f"step {step}: {fault}")
        self._reopen()
        if found is None and last is None:
            return None
        if found is None:
            raise CorruptCheckpointError(
                f"no usable checkpoint is left in {self._root}: {'; '.join(faults)}. "
                "Restore the folder from a copy, or start again in another workdir"
            )
        if faults:
            _LOG.error("CORRUPT CHECKPOINT %s; using step %d", faults, found)
        return self._read(found, abstract_state, check_fn)

    def _steps(self) -> list[int]:
        names = [p.name for p in self._root.iterdir() if p.name.isdigit()]
        return sorted(map(int, names), reverse=True)

    def _removed_as_cut_short(self, step: int) -> bool:
        folder, last = self._root / str(step), self.last_step
        if manifest.exists(folder) or (last is not None and step <= last):
            return False
        _LOG.warning("checkpoint %d was cut short while saved; removing it", step)
        folder.rmtree()
        return True

    def _set_aside_unless_whole(self, step: int) -> str | None:
        folder = self._root / str(step)
        fault = f"{manifest.NAME} is missing"
        if manifest.exists(folder):
            fault = manifest.verify(folder)
        if fault is not None:
            aside = self._workdir / "bad_checkpoints" / f"{step}-{time.time_ns()}"
            aside.parent.mkdir(exist_ok=True)
            folder.rename(aside)
            _LOG.error("checkpoint %d: %s; moved to %s", step, fault, aside)
        return fault

    def _reopen(self) -> None:
        # The manager remembers the steps that it saw when it was made.
        self._manager.close()
        self._open()

    def _read(self, step: int, abstract_state: Any, check_fn: Callable) -> Restored:
        folder = self._root / str(step)
        wanted = ocp.args.Composite(data=ocp.args.JsonRestore())
        data = self._manager.restore(step, args=wanted)["data"]
        check_fn(data)
        saved = _saved_leaves(self._manager.item_metadata(step)["state"])
        check_same_leaves(saved, _leaves(abstract_state), str(folder))
        wanted = ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state))
        return Restored(self._manager.restore(step, args=wanted)["state"], data)

    def close(self) -> None:
        """Waits until everything is on disk.

        Raises:
          OSError, ValueError: if the last save failed.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._finish()
        finally:
            self._worker.shutdown()
            self._manager.close()

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, *exc) -> None:
        self.close()


def _leaves(tree: Any) -> dict[str, tuple]:
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {path_of(k): (tuple(x.shape), str(x.dtype)) for k, x in flat}


def _saved_leaves(metadata: Any) -> dict[str, tuple]:
    tree = getattr(metadata, "tree", metadata)
    flat, _ = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: hasattr(x, "shape")
    )
    return {path_of(k): (tuple(x.shape), str(x.dtype)) for k, x in flat}


def check_same_leaves(saved: dict, wanted: dict, name: str) -> None:
    """Raises UserError unless both have the same paths, shapes and dtypes.

    Orbax itself casts in silence where only the dtype differs.

    Args:
      saved: path -> (shape, dtype) in the checkpoint.
      wanted: path -> (shape, dtype) in the model and optimizer.
      name: of the checkpoint, for the message.
    """
    wrong = []
    for path in sorted(saved.keys() | wanted.keys()):
        if path not in wanted:
            wrong.append(f"{path}: only in the checkpoint")
        elif path not in saved:
            wrong.append(f"{path}: not in the checkpoint")
        elif saved[path] != wanted[path]:
            (s_shape, s_dtype), (w_shape, w_dtype) = saved[path], wanted[path]
            wrong.append(
                f"{path}: {s_dtype}{list(s_shape)} in the checkpoint, "
                f"{w_dtype}{list(w_shape)} wanted"
            )
    if wrong:
        more = f"\n  ... and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise UserError(
            f"checkpoint {name} is of another model or optimizer; {len(wrong)} "
            f"differences ({_sections(wrong)}):\n  " + "\n  ".join(wrong[:5]) + more
        )


def _sections(wrong: list[str]) -> str:
    """Which sections of a config decide the paths that the messages begin with."""
    names = {"params": "model", "opt_state": "optimizer"}
    tops = {message.split("/")[0] for message in wrong}
    sections = [section for top, section in names.items() if top in tops]
    if "params" in tops:
        sections = ["model"]  # the optimizer's arrays follow the parameters
    where = " and ".join(sections or ["model", "optimizer"])
    return f"look at the config's section {where}, or at what changed in the code"
