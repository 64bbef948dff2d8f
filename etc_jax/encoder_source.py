"""The encoder that a command makes another one of, from all places where one may be."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import Any, NamedTuple

from etc_jax.config import Config, from_json
from etc_jax.config_kinds import is_objective
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import HF_CONFIG
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.of_config import task_of
from etc_jax.model_commands import check_ids, home_path, tokenizer_in
from etc_jax.models.encoder_config import EncoderConfig
from etc_jax.models.encoder_decoder_config import EncoderDecoderConfig
from etc_jax.training.checkpoints.saved_params import read_params


@dataclasses.dataclass(frozen=True)
class EncoderSource:
    """An encoder as it was read.

    Attributes:
      folder: of it.
      params: nested dict of arrays.
      config: of the model.
      is_hf: whether it is a folder of Hugging Face.
      tokenizer: of the folder, if there is one.
    """

    folder: str
    params: dict[str, Any]
    config: EncoderConfig | EncoderDecoderConfig
    is_hf: bool
    tokenizer: Tokenizer | None


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for source and result."""
    add = parser.add_argument
    add("--from", dest="source", metavar="FOLDER", type=home_path, required=True)
    add("--step", type=int, help="of a run; default: the newest checkpoint")
    add("--out", required=True, type=home_path, help="folder to write")
    add("--overwrite", action="store_true", help="replace a model that --out holds")


def read(
    folder: str,
    step: int | None,
    purpose: str,
    *,
    with_tokenizer: bool = True,
    pairs: bool = False,
) -> EncoderSource:
    """The encoder in a folder.

    Args:
      folder: of Hugging Face, of a saved model, or of a run or one of its checkpoints.
      step: of a run; None: the newest checkpoint.
      purpose: what is done to encoders alone, for the error.
      with_tokenizer: whether its tokenizer is read.
      pairs: whether it may be the encoder of an encoder-decoder, which is read whole.

    Raises:
      ValueError, OSError, RunError: if there is no model, or another kind of one.
    """
    place = pathlib.Path(folder)
    is_hf = (place / HF_CONFIG).is_file() and not native.exists(place)
    tokenizer = None
    if is_hf:
        params, config, _ = hugging_face.read(place)
        if with_tokenizer:
            tokenizer = tokenizer_in(folder, config.vocab_size)
    else:
        own = read_own(folder, step, with_tokenizer=with_tokenizer)
        params, config, tokenizer = own.params, own.config, own.tokenizer
    kinds, more = (EncoderConfig,), ""
    if pairs:
        kinds, more = (*kinds, EncoderDecoderConfig), ", and Bart, Led and T5"
    if not isinstance(config, kinds):
        raise ValueError(
            f"{folder} is a {type(config).__name__.removesuffix('Config')}; what can "
            f"be {purpose} are Bert, Roberta, Longformer and BigBird{more}"
        )
    return EncoderSource(folder, params, config, is_hf, tokenizer)


class OwnModel(NamedTuple):
    """A model or run of etc_jax.

    Attributes:
      params: nested dict of arrays.
      config: of the model.
      tokenizer: of the model; None if it has none, or was not asked for.
      run: config of the run that trained it; None if it is not known.
    """

    params: dict[str, Any]
    config: Any
    tokenizer: Tokenizer | None
    run: Config | None

    def labels(self) -> tuple[str, ...]:
        """Names of the classes that it was fine-tuned to choose among; () without.

        Raises:
          ValueError: if the data set that has them is not there.
        """
        if self.run is None or is_objective(self.run.objective.name):
            return ()
        return task_of(self.run).classes


def read_own(folder: str, step: int | None, *, with_tokenizer: bool = True) -> OwnModel:
    """Reads a model or run of etc_jax.

    Args:
      folder: of a saved model, or of a run or one of its checkpoints.
      step: of a run; None: the newest checkpoint.
      with_tokenizer: whether its tokenizer is read.

    Raises:
      ValueError, OSError, RunError: if there is no model.
    """
    run = None
    if native.exists(folder):
        params, config = native.load(folder)
        file = pathlib.Path(folder) / TOKENIZER
        content = native.read_file(folder, TOKENIZER) if file.is_file() else None
        if (pathlib.Path(folder) / HF_CONFIG).is_file():  # exported from a run
            run = from_json(native.read_file(folder, HF_CONFIG).decode())
    else:
        saved = read_params(folder, step)
        params, run, config = saved.params, saved.config, saved.config.model
        file = saved.run / TOKENIZER
        content = file.read_bytes() if file.exists() else None
    if content is None or not with_tokenizer:
        return OwnModel(params, config, None, run)
    tokenizer = Tokenizer.from_bytes(content, str(file))
    check_ids(tokenizer, config.vocab_size, str(folder))
    return OwnModel(params, config, tokenizer, run)
