"""A trained model with all that prediction needs: of a run, or exported from one."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any

from etils import epath

from etc_jax.base import strict_json
from etc_jax.config import Config
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.of_config import lengths_of
from etc_jax.loading import model_source
from etc_jax.loading.model_source import ModelSource
from etc_jax.training.errors import UserError

CONFIG = "config.json"


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
      source: the same where it lies, for what else is on record there.
    """

    params: dict[str, Any]
    config: Config
    tokenizer: Tokenizer
    folder: str
    step: int
    generation: GenerationFile | None = None
    source: ModelSource | None = dataclasses.field(default=None, repr=False)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of an input, in the order of the sizes of its data set."""
        return lengths_of(self.config)

    @functools.cached_property
    def digest(self) -> str:
        """See `model_source.digest_of`."""
        return model_source.digest_of(self.params, self.config, self.tokenizer)


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
    folder, step = str(saved.folder), saved.step
    return TrainedModel(
        saved.params, saved.config, source.tokenizer, folder, step, source=source
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
    tokenizer, generation = source.tokenizer, source.generation
    return TrainedModel(
        params, source.run, tokenizer, str(folder), step, generation, source
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
