"""The encoder that a command makes another one of, from all places where one may be."""

from __future__ import annotations

import argparse

from etc_jax.base.local_paths import MODEL, OUTPUT
from etc_jax.loading import model_source
from etc_jax.loading.model_source import ModelSource
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for source and result."""
    add = parser.add_argument
    add("--from", dest="source", metavar="FOLDER", type=MODEL, required=True)
    add("--step", type=int, help="of a run; default: the newest checkpoint")
    add("--out", required=True, type=OUTPUT, help="folder to write")
    add("--overwrite", action="store_true", help="replace a model that --out holds")


def find(name: str, step: int | None, purpose: str) -> ModelSource:
    """The encoder, or the encoder-decoder, of a folder or a name.

    Args:
      name: see `model_source.find`.
      step: of a run; None: the newest checkpoint.
      purpose: what is done to such models alone, for the error.

    Raises:
      ValueError, RunError: if there is no model, or another kind of one.
    """
    source = model_source.find(name, step, named="--from")
    if not isinstance(source.config, EncoderConfig | EncoderDecoderConfig):
        kind = type(source.config).__name__.removesuffix("Config")
        raise ValueError(
            f"{name} is a {kind}; what can be {purpose} are Bert, Roberta, Longformer "
            "and BigBird, and Bart, Led and T5"
        )
    return source
