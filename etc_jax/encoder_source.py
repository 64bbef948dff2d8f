"""The encoder that a command makes another one of, from all places where one may be."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import Any

from etc_jax.conversion import hugging_face, native
from etc_jax.conversion.config_file import HF_CONFIG
from etc_jax.data.cache import TOKENIZER
from etc_jax.model_commands import home_path, saved_tokenizer
from etc_jax.models.encoder_config import EncoderConfig
from etc_jax.training.saved_params import read_params


@dataclasses.dataclass(frozen=True)
class EncoderSource:
    """An encoder as it was read.

    Attributes:
      folder: of it.
      params: nested dict of arrays.
      config: of the model.
      is_hf: whether it is a folder of Hugging Face.
    """

    folder: str
    params: dict[str, Any]
    config: EncoderConfig
    is_hf: bool

    def tokenizer(self) -> dict[str, bytes]:
        """The tokenizer in the folder as etc_jax saves it; {} if there is none."""
        if self.is_hf:
            return saved_tokenizer(self.folder)
        path = pathlib.Path(self.folder) / TOKENIZER
        return {TOKENIZER: path.read_bytes()} if path.is_file() else {}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds what such a command is told of source and result."""
    add = parser.add_argument
    add("--from", dest="source", metavar="FOLDER", type=home_path, required=True)
    add("--step", type=int, help="of a run; default: the newest checkpoint")
    add("--out", required=True, type=home_path, help="folder to write")
    add("--overwrite", action="store_true", help="replace a model that --out holds")


def read(folder: str, step: int | None, purpose: str) -> EncoderSource:
    """The encoder in a folder.

    Args:
      folder: of Hugging Face, of a saved model, or of a run or one of its checkpoints.
      step: of a run; None: the newest checkpoint.
      purpose: what is done to encoders alone, for the error.

    Raises:
      ValueError, OSError, RunError: if there is no model, or another kind of one.
    """
    place = pathlib.Path(folder)
    is_hf = (place / HF_CONFIG).is_file() and not native.exists(place)
    if is_hf:
        params, config, _ = hugging_face.read(place)
    elif native.exists(place):
        params, config = native.load(place)
    else:
        saved = read_params(place, step)
        params, config = saved.params, saved.config.model
    if not isinstance(config, EncoderConfig):
        raise ValueError(
            f"{folder} is a {type(config).__name__.removesuffix('Config')}; what can "
            f"be {purpose} are Bert, Roberta, Longformer and BigBird"
        )
    return EncoderSource(folder, params, config, is_hf)
