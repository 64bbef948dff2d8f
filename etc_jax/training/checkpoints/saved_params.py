"""The parameters of a saved run, to be used elsewhere: no optimizer, no mesh."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from etc_jax.config import Config, ConfigError, from_record
from etc_jax.conversion.engine import unflatten
from etc_jax.training.checkpoints import fingerprints, manifest
from etc_jax.training.checkpoints.folder import FOLDER, CheckpointFolder, read_data
from etc_jax.training.checkpoints.parameter_source import RunCheckpoint
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.local_folder import local_folder

_LOG = logging.getLogger(__name__)


class SavedParams(NamedTuple):
    """Parameters as a run saved them.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the run.
      step: after which they were saved.
      folder: of the checkpoint.
      inputs: digests of what they were trained on; see `training.job.Job`.
    """

    params: dict[str, Any]
    config: Config
    step: int
    folder: epath.Path
    inputs: Mapping[str, str]

    @property
    def run(self) -> epath.Path:
        """The folder of the run, if the checkpoint lies where the run left it."""
        return self.folder.parent.parent


def read_params(folder: epath.PathLike, step: int | None = None) -> SavedParams:
    """The parameters of one checkpoint, whose files are verified first.

    The folder is only read: the run may be going on. A damaged checkpoint is named in
    the log and stays where it is.

    Args:
      folder: of a run, or of one checkpoint.
      step: of the checkpoint; None: the newest one of the run that is whole.

    Raises:
      UserError: if there is no such checkpoint, or its config is not of this version.
      CorruptCheckpointError: if it is damaged, or no whole one is left.
    """
    chosen = _chosen(local_folder(folder, named="the model"), step)
    data = read_data(chosen)
    try:
        config = from_record(data["config"])
    except (ConfigError, KeyError) as error:
        raise UserError(
            f"checkpoint {chosen} was saved with a config that this version cannot "
            f"read: {error}"
        ) from error
    inputs = data.get(fingerprints.FIELD, {})
    return SavedParams(_read(chosen), config, int(data["step"]), chosen, inputs)


def _chosen(path: epath.Path, step: int | None) -> epath.Path:
    if manifest.exists(path):
        if step is not None:
            raise UserError(
                f"{path} is one checkpoint already; leave the step out, or name the "
                "folder of the run"
            )
        return _whole([path], path)
    run = CheckpointFolder(path)
    steps = run.finished()
    if not steps:
        raise UserError(
            f"no finished checkpoint at {path}: neither {manifest.NAME} nor "
            f"{FOLDER}/STEP/{manifest.NAME} is there; name the folder of a run, or of "
            "one of its checkpoints"
        )
    if step is None:
        return _whole([run.path(s) for s in steps], path)
    if step not in steps:
        listed = ", ".join(map(str, sorted(steps)))
        raise UserError(
            f"no finished checkpoint of step {step} in {path}; of: {listed}"
        )
    return _whole([run.path(step)], path)


def _whole(candidates: list[epath.Path], root: epath.Path) -> epath.Path:
    """The first one without a fault."""
    faults = []
    for path in candidates:
        try:
            RunCheckpoint(path).verify()
        except CorruptCheckpointError as error:
            _LOG.error("CORRUPT CHECKPOINT: %s", error)
            faults.append(str(error))
        else:
            return path
    raise CorruptCheckpointError(f"no whole checkpoint in {root}: {'; '.join(faults)}")


def _read(folder: epath.Path) -> dict[str, Any]:
    source = RunCheckpoint(folder)
    # Arrays of numpy, of which one number is in memory: what is read is numpy as well.
    wanted = {
        path: np.broadcast_to(np.zeros((), np.dtype(dtype)), shape)
        for path, (shape, dtype) in source.leaves().items()
    }
    if not wanted:
        raise UserError(f"checkpoint {folder} has no parameters")
    return unflatten(source.read(unflatten(wanted)))
