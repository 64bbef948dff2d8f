"""A trained model with all that prediction needs: of a run, or exported from one."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
from typing import Any

import numpy as np
from etils import epath

from etc_jax.base import strict_json
from etc_jax.config import Config, to_dict
from etc_jax.config.sections import LENGTHS
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.of_config import lengths_of
from etc_jax.loading import model_source
from etc_jax.loading.model_source import ModelSource
from etc_jax.training.errors import UserError

CONFIG = "config.json"
# Fields of the section data that decide how a record becomes an input. Its options are
# left out: they can be given anew, and what came of that stands beside the digest.
_SHAPES_INPUTS = (*LENGTHS, "flat", "official_quirks")


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """Parameters, and how inputs are made for them.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the run.
      tokenizer: of the run's data.
      folder: where it was found.
      step: of the run, after which it was saved.
      generation: how the folder of an exported model says that it writes texts.
    """

    params: dict[str, Any]
    config: Config
    tokenizer: Tokenizer
    folder: str
    step: int
    generation: GenerationFile | None = None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of an input, in the order of the sizes of its data set."""
        return lengths_of(self.config)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all that decides what the model predicts."""
        sha = hashlib.sha256(self.tokenizer.fingerprint().encode())
        sections = to_dict(self.config)
        # A run on texts has no field that shapes windows.
        data = {f: x for f, x in sections["data"].items() if f in _SHAPES_INPUTS}
        facts = [sections["model"], sections["objective"], data]
        sha.update(json.dumps(facts, sort_keys=True).encode())
        for path, array in sorted(flatten(self.params).items()):
            sha.update(f"{path} {array.dtype} {array.shape}".encode())
            sha.update(np.ascontiguousarray(array).view(np.uint8))
        return sha.hexdigest()


def open_model(folder: epath.PathLike, step: int | None = None) -> TrainedModel:
    """Reads a model; its files are verified first.

    Args:
      folder: of a run, of one of its checkpoints, or of an exported model.
      step: of a run's checkpoint; None: the newest one that is whole.

    Raises:
      UserError, ValueError: if there is no model, or something beside it is missing.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    try:
        source = model_source.find(folder, step)
    except ValueError as error:
        raise UserError(str(error)) from error
    if source.is_hf:
        raise UserError(
            f"{folder} is {source.place.kind.value}: it can be trained, and predicts "
            "nothing. Name a fine-tuning run, or what etc-jax convert --export made of "
            "one"
        )
    if source.saved is None:
        return _exported(source)
    saved, path = source.saved, source.place.tokenizer_folder / TOKENIZER
    if source.tokenizer is None:
        raise UserError(
            f"{path} is missing: a fine-tuning run has its tokenizer there. Name the "
            "folder of such a run, or a checkpoint that lies where the run left it"
        )
    fingerprint = source.tokenizer.fingerprint()
    expected = saved.inputs.get("tokenizer")
    if expected not in (None, fingerprint):
        raise UserError(
            f"{path} is vocabulary {fingerprint[:12]}, but the model was trained with "
            f"{expected[:12]}; restore the file, which is {TOKENIZER} of the data too"
        )
    return TrainedModel(
        saved.params, saved.config, source.tokenizer, str(saved.folder), saved.step
    )


def _exported(source: ModelSource) -> TrainedModel:
    folder, params = pathlib.Path(source.place.path), source.params
    parts = {CONFIG: source.run, TOKENIZER: source.tokenizer}
    if missing := [name for name, part in parts.items() if part is None]:
        raise UserError(
            f"{folder} holds a model without {', '.join(missing)}, as conversion makes "
            "them: it can be trained, and predicts nothing. Name a fine-tuning run, or "
            "what etc-jax convert --export made of one"
        )
    if source.run.model != source.config:
        raise UserError(
            f"{folder / CONFIG} is of another model than {folder / native.MODEL}; "
            "export it again"
        )
    step = _step_of(folder / native.REPORT)
    generation = source.generation
    return TrainedModel(
        params, source.run, source.tokenizer, str(folder), step, generation
    )


def _step_of(report: pathlib.Path) -> int:
    """The step that an exported model is of."""
    try:
        step = strict_json.loads(report.read_bytes())["made_from"]["step"]
        if type(step) is int and step >= 0:
            return step
        problem = "made_from.step is no number of a step"
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = repr(error)[:200]
    raise UserError(f"{report} is missing or damaged ({problem}); export it again")
