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
from etc_jax.config import Config, ConfigError, from_json, to_dict
from etc_jax.config.sections import LENGTHS
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import generation_file, native
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.of_config import lengths_of
from etc_jax.prediction.inputs import tokenizer_of
from etc_jax.training.checkpoints import model_folder
from etc_jax.training.checkpoints.model_folder import Kind
from etc_jax.training.checkpoints.saved_params import read_params
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
      tokenizer_json: what the tokenizer saved itself as.
      folder: where it was found.
      step: of the run, after which it was saved.
      generation: how the folder of an exported model says that it writes texts.
    """

    params: dict[str, Any]
    config: Config
    tokenizer_json: bytes
    folder: str
    step: int
    generation: GenerationFile | None = None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of an input, in the order of the sizes of its data set."""
        return lengths_of(self.config)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the run's data."""
        return tokenizer_of(self.tokenizer_json)

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
        location = model_folder.find(folder)
    except ValueError as error:
        raise UserError(str(error)) from error
    if location.kind is Kind.CONVERTED:
        return _exported(pathlib.Path(location.path), step)
    if location.kind is Kind.HUGGING_FACE:
        raise UserError(
            f"{folder} is {location.kind.value}: it can be trained, and predicts "
            "nothing. Name a fine-tuning run, or what etc-jax convert --export made of "
            "one"
        )
    saved = read_params(location.path, step)
    path = saved.run / TOKENIZER
    if not path.exists():
        raise UserError(
            f"{path} is missing: a fine-tuning run has its tokenizer there. Name the "
            "folder of such a run, or a checkpoint that lies where the run left it"
        )
    model = TrainedModel(
        saved.params, saved.config, path.read_bytes(), str(saved.folder), saved.step
    )
    fingerprint, expected = model.tokenizer.fingerprint(), saved.inputs.get("tokenizer")
    if expected not in (None, fingerprint):
        raise UserError(
            f"{path} is vocabulary {fingerprint[:12]}, but the model was trained with "
            f"{expected[:12]}; restore the file, which is {TOKENIZER} of the data too"
        )
    return model


def _exported(folder: pathlib.Path, step: int | None) -> TrainedModel:
    if step is not None:
        raise UserError(f"{folder} is an exported model: it has one step; leave it out")
    params, model = native.load(folder)
    if missing := [n for n in (CONFIG, TOKENIZER) if not (folder / n).is_file()]:
        raise UserError(
            f"{folder} holds a model without {', '.join(missing)}, as conversion makes "
            "them: it can be trained, and predicts nothing. Name a fine-tuning run, or "
            "what etc-jax convert --export made of one"
        )
    try:
        config = from_json(native.read_file(folder, CONFIG).decode())
    except ConfigError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from error
    if config.model != model:
        raise UserError(
            f"{folder / CONFIG} is of another model than {folder / native.MODEL}; "
            "export it again"
        )
    step = _step_of(folder / native.REPORT)
    tokenizer = native.read_file(folder, TOKENIZER)
    generation = generation_file.read(folder)
    return TrainedModel(params, config, tokenizer, str(folder), step, generation)


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
