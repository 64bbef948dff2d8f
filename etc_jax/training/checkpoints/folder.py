"""The folder of checkpoints as files: which are finished, whole, or to go.

checkpoints/<step>/       one checkpoint: what Orbax wrote, and manifest.json; later
                          evaluation.json, the metrics of this step
last_checkpoint.json      the newest step that was ever finished
bad_checkpoints/          what was found damaged or unfinished, kept for a look

A checkpoint is finished when its manifest is written, after Orbax's commit. One
process alone may change anything here. Only what this code has written is deleted: a
checkpoint with its manifest, and the temporary folders of a save. Everything else is
left where it is or, where a checkpoint needs the place, moved to `bad_checkpoints`.
"""

import logging
import re
import time
from typing import Any

from etils import epath

from etc_jax.base import stores, strict_json
from etc_jax.base.whole_files import write_whole
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.retention import Retention
from etc_jax.training.errors import CorruptCheckpointError

_LOG = logging.getLogger(__name__)

FOLDER = "checkpoints"
_LAST = "last_checkpoint.json"
_ASIDE = "bad_checkpoints"
_DOOMED = ".deleting"
# Where orbax_io.py has the JSON put.
DATA_ITEM, DATA_FILE = "data", "metadata"


_SHOWN = 200
# No leading zero, as the folder's name is made of the number again; no other digits
# than these, of which Unicode has hundreds; and no more than 64 bits.
_STEP = re.compile(r"0|[1-9][0-9]{0,17}")
# Orbax's name for what it has not committed, and ours for where the list of what is
# being deleted goes first.
_OWN_REMAINS = re.compile(r"([0-9]+)(\.deleting|\.orbax-checkpoint-tmp(-[0-9]+)?)")


def is_step(name: str) -> bool:
    """Whether a folder of this name is the checkpoint of a step."""
    return _STEP.fullmatch(name) is not None


def read_data(folder: epath.Path) -> dict[str, Any]:
    """The JSON saved beside the state of one checkpoint.

    Raises:
      CorruptCheckpointError: if it is no JSON object.
      OSError: if it cannot be read.
    """
    path = folder / DATA_ITEM / DATA_FILE
    try:
        values = strict_json.loads(path.read_text())
        if not isinstance(values, dict):
            raise ValueError(f"it holds a {type(values).__name__}")
    except ValueError as error:
        reason = repr(str(error))[:_SHOWN]
        raise CorruptCheckpointError(f"{path} is damaged ({reason})") from error
    return values


def _of_another_step(folder: epath.Path) -> str | None:
    """What is wrong with a folder's name: a copy or a new name would be the newest.

    Files that cannot be read are left to the list of checksums.
    """
    try:
        step = read_data(folder).get("step", folder.name)
    except (OSError, CorruptCheckpointError):
        return None
    if str(step) == folder.name:
        return None
    return f"holds step {step}: the folder is a copy, or was renamed"


class CheckpointFolder:
    """The checkpoints of one workdir.

    Attributes:
      root: the folder with one folder a step.
    """

    def __init__(self, workdir: epath.Path):
        self._workdir = workdir
        self.root = workdir / FOLDER

    def path(self, step: int) -> epath.Path:
        """Where the checkpoint of a step is, or would be."""
        return self.root / str(step)

    def steps(self) -> list[int]:
        """Steps that have a folder, the newest first, whole or not."""
        if not self.root.exists():
            return []
        names = [path.name for path in self.root.iterdir() if is_step(path.name)]
        return sorted(map(int, names), reverse=True)

    def finished(self) -> list[int]:
        """Steps whose saves came to an end, the newest first; they may be damaged."""
        return [
            step
            for step in self.steps()
            if manifest.exists(self.path(step))
            and _of_another_step(self.path(step)) is None
        ]

    def prepare(self) -> None:
        """Makes the folder and removes what a crash has left half written or deleted.

        Raises:
          OSError: if the storage refuses.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def _sweep(self, step: int | None = None) -> None:
        """Removes temporary folders and what is half deleted, of one step or of all."""
        if not self.root.exists():  # object stores have no empty folders
            return
        for path in list(self.root.iterdir()):
            name = _OWN_REMAINS.fullmatch(path.name)
            if name and step in (None, int(name[1])) and path.is_dir():
                rest = self.path(int(name[1]))
                if name[2] == _DOOMED and rest.exists() and not manifest.exists(rest):
                    rest.rmtree()
                path.rmtree()

    @property
    def last_step(self) -> int | None:
        """The newest finished step as it was noted, whether or not it is still whole.

        None if there is no note, or none that can be read.
        """
        return self._noted()[0]

    def _noted(self) -> tuple[int | None, str | None]:
        """(the step, what is wrong with the note)."""
        note = self._workdir / _LAST
        if not note.exists():
            return None, None
        try:
            values = manifest.read_with_checksum(note.read_text(), "step")
            return int(values["step"]), None
        except (ValueError, TypeError, OverflowError) as error:
            return None, f"{_LAST} cannot be read ({error})"

    def _note(self, step: int) -> None:
        text = manifest.with_checksum({"step": step})
        write_whole(self._workdir / _LAST, text)

    def finish(self, step: int, retention: Retention) -> None:
        """Lists the files of a committed checkpoint, then lets old ones go.

        And the remains of saves that failed: a writer that nobody waits for may have
        gone on after `remove_remains`. No save is under way now.

        Raises:
          OSError: if the list cannot be written; the checkpoint is not finished then.
        """
        manifest.write(self.path(step))
        self._note(step)
        try:
            self._delete_old(retention)
            self._sweep()
        except stores.errors() as error:
            # The new one is safe all the same.
            _LOG.error("old checkpoints in %s stay: %s", self.root, error)

    def _delete_old(self, retention: Retention) -> None:
        metrics = {
            step: retention.metric_in(self.evaluation(step)) for step in self.finished()
        }
        for step in retention.dispensable(metrics):
            self._rescue_strays(step)
            self._delete(step)

    def _rescue_strays(self, step: int) -> None:
        """Moves what others have put into a checkpoint out of it."""
        try:
            strays = manifest.strays(self.path(step))
        except ValueError as error:  # nobody knows what is ours
            self._set_aside(self.path(step), f"{manifest.NAME} is damaged ({error})")
            return
        for path in strays:
            self._set_aside(path, f"not a file of checkpoint {step}, which is deleted")

    def _delete(self, step: int) -> None:
        if not self.path(step).exists():
            return
        # A crash in the middle must not leave half of one that looks finished, and not
        # every storage gives a folder another name at once.
        doomed = self.root / f"{step}{_DOOMED}"
        if manifest.exists(self.path(step)):
            stores.move(self.path(step) / manifest.NAME, doomed / manifest.NAME)
        self.path(step).rmtree()
        if doomed.exists():
            doomed.rmtree()

    def evaluation(self, step: int) -> dict[str, float]:
        """The metrics of a checkpoint's step; {} if its evaluation was not finished."""
        file = self.path(step) / manifest.EVALUATION
        if not file.exists():  # it was made before the save
            return read_data(self.path(step)).get("evaluation") or {}
        try:
            text = file.read_text()
            return manifest.read_with_checksum(text, "evaluation")["evaluation"]
        except ValueError as error:
            _LOG.error("%s is damaged (%s): it is made again", file, error)
            return {}

    def add_evaluation(
        self, step: int, evaluation: dict[str, float], retention: Retention
    ) -> None:
        """Adds the metrics to a finished checkpoint, then lets worse ones go.

        Nothing is done if its save has failed.

        Raises:
          OSError: if the storage refuses.
        """
        if not manifest.exists(self.path(step)):
            return
        text = manifest.with_checksum({"evaluation": evaluation})
        write_whole(self.path(step) / manifest.EVALUATION, text)
        self._delete_old(retention)

    def remove_remains(self, step: int) -> None:
        """Removes what a failed save of `step` has left; an error is logged only."""
        try:
            self._delete(step)
            self._sweep(step)
        except stores.errors() as error:
            _LOG.error("the remains of checkpoint %d stay: %s", step, error)

    def choose(self) -> int | None:
        """The newest whole checkpoint; None if none was ever finished.

        Those that are damaged, or not of the step that their folder is named by, are
        named in the log and set aside, as are those that were cut short while they
        were saved.

        Raises:
          CorruptCheckpointError: if checkpoints were finished and none is whole, or
            several have no list of their files, as in a copy that left some out.
          OSError: if the storage cannot be read.
        """
        last, fault = self._noted()
        faults = [] if fault is None else [fault]
        steps = self.steps()
        if last is not None and last not in steps:
            faults.append(f"step {last}: is missing")
        # Without a note nobody knows whether the first in line was finished.
        cut_short = [] if fault else self._cut_short(steps, last)
        if last is None and len(cut_short) == len(steps) > 1:
            raise CorruptCheckpointError(self._without_lists(cut_short))
        for step in cut_short:
            self._set_aside(self.path(step), "cut short while saved")
        for step in [step for step in steps if step not in cut_short]:
            wrong = manifest.verify(self.path(step))
            wrong = wrong or _of_another_step(self.path(step))
            if wrong is None:
                self._take(step, faults, note_is_bad=fault is not None)
                return step
            faults.append(f"step {step}: {wrong}")
            self._set_aside(self.path(step), wrong)
        if faults:
            raise CorruptCheckpointError(
                f"no usable checkpoint is left in {self.root}: {'; '.join(faults)}. "
                "Restore the folder from a copy, or start again in another workdir"
            )
        return None

    def _cut_short(self, steps: list[int], last: int | None) -> list[int]:
        newer = [step for step in steps if last is None or step > last]
        return [step for step in newer if not manifest.exists(self.path(step))]

    def _without_lists(self, steps: list[int]) -> str:
        named = ", ".join(map(str, sorted(steps)))
        return (
            f"the checkpoints {named} in {self.root} have no {manifest.NAME}, and "
            f"{_LAST} is missing: if they were copied, copy them again with all "
            "files. To begin from step 0 move them away, or choose another --workdir"
        )

    def _take(self, step: int, faults: list[str], *, note_is_bad: bool) -> None:
        if faults:
            _LOG.error("CORRUPT CHECKPOINT %s; using step %d", faults, step)
        if note_is_bad:
            self._set_aside(self._workdir / _LAST, "cannot be read")
            self._note(step)

    def _set_aside(self, path: epath.Path, fault: str) -> None:
        aside = self._workdir / _ASIDE / f"{path.name}-{time.time_ns()}"
        stores.move(path, aside)
        _LOG.error("%s: %s; moved to %s", path, fault, aside)
