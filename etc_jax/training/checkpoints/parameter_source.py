"""Parameters that lie in a folder of any kind, to be read into arrays on a mesh."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from etils import epath

from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.training.checkpoints import manifest, model_folder
from etc_jax.training.checkpoints.folder import FOLDER, CheckpointFolder, read_data
from etc_jax.training.checkpoints.layout import Leaves, leaves_of
from etc_jax.training.checkpoints.model_folder import Kind, ModelFolder
from etc_jax.training.checkpoints.orbax_io import read_state, saved_leaves
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.job import HELPERS

_PARAMS = "params/"
_OF_HELPERS = f"{_PARAMS}{HELPERS}/"


@dataclasses.dataclass(frozen=True)
class ParameterSource(abc.ABC):
    """Parameters of a model, which can be read in part.

    Attributes:
      folder: where they lie.
    """

    folder: epath.Path

    @abc.abstractmethod
    def verify(self) -> None:
        """Reads all files.

        Raises:
          CorruptCheckpointError: if one is not what was written.
        """

    @abc.abstractmethod
    def leaves(self) -> Leaves:
        """{path: (shape, dtype)} of the parameters."""

    @abc.abstractmethod
    def model(self) -> Mapping[str, Any]:
        """The section `model` of the config that they were made with.

        Raises:
          ValueError, RunError: if it cannot be read.
        """

    @abc.abstractmethod
    def read(self, wanted: Any) -> dict[str, jax.Array]:
        """{path: array} of abstract arrays in nested dicts, in their shardings."""


class RunCheckpoint(ParameterSource):
    """The folder of one checkpoint of a run."""

    def verify(self) -> None:
        if fault := manifest.verify(self.folder):
            raise CorruptCheckpointError(
                f"the checkpoint {self.folder} is damaged: {fault}; name another one"
            )

    def leaves(self) -> Leaves:
        return {
            path.removeprefix(_PARAMS): leaf
            for path, leaf in saved_leaves(self.folder).items()
            if path.startswith(_PARAMS) and not path.startswith(_OF_HELPERS)
        }

    def model(self) -> Mapping[str, Any]:
        config = read_data(self.folder).get("config", {})
        model = config.get("model", {}) if isinstance(config, dict) else None
        if not isinstance(model, dict):
            raise CorruptCheckpointError(
                f"the checkpoint {self.folder} is damaged: its config has no section "
                "model; name another one"
            )
        return model

    def read(self, wanted: Any) -> dict[str, jax.Array]:
        if not wanted:
            return {}
        return flatten(read_state(self.folder, {"params": wanted}, part=True)["params"])


class _WholeModel(ParameterSource):
    """A folder whose parameters are read together."""

    @abc.abstractmethod
    def _load(self) -> Mapping[str, Any]:
        """The parameters in nested dicts; ValueError if they are damaged."""

    @functools.cached_property
    def _params(self) -> dict[str, np.ndarray]:
        try:
            return flatten(self._load())
        except ValueError as error:
            raise CorruptCheckpointError(str(error)) from error

    def verify(self) -> None:
        _ = self._params

    def leaves(self) -> Leaves:
        return leaves_of(self._params)

    def read(self, wanted: Any) -> dict[str, jax.Array]:
        def on_devices(path: str, leaf: jax.ShapeDtypeStruct) -> jax.Array:
            whole = self._params[path]
            return jax.make_array_from_callback(
                leaf.shape, leaf.sharding, lambda index: whole[index]
            )

        return {path: on_devices(path, leaf) for path, leaf in flatten(wanted).items()}


class SavedModel(_WholeModel):
    """A folder that `etc-jax convert` wrote; see `conversion.formats.native`."""

    def _load(self) -> Mapping[str, Any]:
        return native.load(self.folder).params

    def model(self) -> Mapping[str, Any]:
        return native.model_section(self.folder)


class HuggingFaceModel(_WholeModel):
    """A folder of Hugging Face, which is converted as it is read."""

    def _load(self) -> Mapping[str, Any]:
        return hugging_face.read(self.folder).params

    def model(self) -> Mapping[str, Any]:
        return native.section_of(hugging_face.read_config(self.folder))


def find(source: epath.PathLike, *, named: str) -> ParameterSource:
    """The parameters that a path means: quick, their files are not read.

    Args:
      source: see `model_folder.find`; of a run the newest finished checkpoint is meant.
      named: what gave the path, for the message.

    Raises:
      UserError: if there is nothing.
    """
    try:
        return of_folder(model_folder.find(source, named=named), named=named)
    except ValueError as error:
        raise UserError(str(error)) from error


def of_folder(folder: ModelFolder, *, named: str = "the model") -> ParameterSource:
    """The parameters of a folder.

    Args:
      folder: the folder.
      named: what gave it, for the message.

    Raises:
      UserError: if it is a run without a finished checkpoint.
    """
    if folder.kind is not Kind.RUN:
        return _SOURCES[folder.kind](folder.path)
    checkpoints = CheckpointFolder(folder.path)
    if finished := checkpoints.finished():
        return RunCheckpoint(checkpoints.path(finished[0]))
    raise UserError(
        f"{named} is {folder.path}, a run, but there is no finished checkpoint in it, "
        f"no {folder.path / FOLDER}/STEP/{manifest.NAME}; name another folder"
    )


_SOURCES = {
    Kind.CONVERTED: SavedModel,
    Kind.HUGGING_FACE: HuggingFaceModel,
    Kind.CHECKPOINT: RunCheckpoint,
}
