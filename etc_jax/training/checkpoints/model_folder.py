"""Which kind of model a folder holds. All that reads models asks here."""

from __future__ import annotations

import enum
import os
import pathlib
from typing import NamedTuple

from etils import epath

from etc_jax.base import stores
from etc_jax.conversion.formats import native, places, sentence_folder
from etc_jax.conversion.formats.config_file import HF_CONFIG
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.training.checkpoints import fetched, manifest
from etc_jax.training.checkpoints.folder import FOLDER


class Kind(enum.Enum):
    """What wrote a folder."""

    CONVERTED = "a converted model"
    HUGGING_FACE = "a folder of Hugging Face"
    RUN = "a run"
    CHECKPOINT = "a checkpoint of a run"


class ModelFolder(NamedTuple):
    """A folder with a model.

    Attributes:
      kind: of the folder.
      path: absolute; of sentence-transformers, that of the model inside it.
      root: the folder that was given, where files of sentence-transformers lie.
    """

    kind: Kind
    path: epath.Path
    root: pathlib.Path

    @property
    def sentences(self) -> SentenceFolder | None:
        """What sentence-transformers says there; None for others.

        Raises:
          ValueError: see `sentence_folder.read`.
        """
        return sentence_folder.read(self.root)

    @property
    def tokenizer_folder(self) -> epath.Path:
        """Where the tokenizer lies, if there is one."""
        # A checkpoint is two folders below the one of its run.
        above = self.kind is Kind.CHECKPOINT
        return self.path.parent.parent if above else self.path


def find(
    source: str | os.PathLike,
    *,
    named: str = "the model",
    download: bool = False,
    step: int | None = None,
) -> ModelFolder:
    """The folder of a model: quick, no weights are read.

    Args:
      source: folder of a run or of one of its checkpoints, of a converted model, or of
        Hugging Face or sentence-transformers; or the name of a repository in the cache
        of Hugging Face. A folder of that path comes first. One in an object store is
        copied here, with one checkpoint of a run; see `fetched`.
      named: what gave the place, for errors.
      download: whether a repository that the cache lacks is fetched.
      step: of a run in an object store; None: the newest checkpoint.

    Raises:
      OSError: if an object store refuses.
      ValueError: if there is no model. Whether files are whole is not looked at.
    """
    if isinstance(source, str | os.PathLike) and stores.is_address(source):
        root = _fetched(source, named, step)
    else:
        root = places.folder_of(source, named=named, download=download)
    path = epath.Path(sentence_folder.transformer_in(root).resolve())
    if native.exists(path):  # an exported one has the config.json of its run
        kind = Kind.CONVERTED
    elif (path / HF_CONFIG).is_file():
        kind = Kind.HUGGING_FACE
    elif manifest.exists(path):
        kind = Kind.CHECKPOINT
    elif (path / FOLDER).is_dir():
        kind = Kind.RUN
    else:
        raise ValueError(
            f"{named} is {root}, which has no model: neither {HF_CONFIG} of Hugging "
            f"Face, nor {native.MODEL} of a converted model, nor a finished "
            f"checkpoint, {manifest.NAME} or {FOLDER}/STEP/{manifest.NAME}"
            f"{places.conversion_of(root)}"
        )
    return ModelFolder(kind, path, root)


def _fetched(source: str | os.PathLike, named: str, step: int | None) -> pathlib.Path:
    if wrong := stores.problem(source):
        raise ValueError(f"{named} {wrong}")
    try:
        return fetched.folder_of(source, step=step)
    except ValueError as error:
        raise ValueError(f"{named}: {error}") from error
