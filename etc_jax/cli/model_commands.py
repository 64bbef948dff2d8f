"""What the commands share that write a model."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import jax

from etc_jax.cli import command_line, next_steps
from etc_jax.conversion.formats import label_names, sentence_folder
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.loading.model_source import ModelSource

T = TypeVar("T")
_WITHOUT = "--without_tokenizer leaves it out"


def kept_tokenizer(args: argparse.Namespace, read: Callable[[], T]) -> T | None:
    """The tokenizer of a model; None if there is none, or it is to be left out.

    Data for the model is prepared with it, and a run that starts from the model
    compares its own with it.

    Args:
      args: with the flag of `add_tokenizer_flag`.
      read: reads it.

    Raises:
      ValueError: if there is one that cannot be kept, or that is not the model's.
    """
    if args.without_tokenizer:
        return None
    try:
        return read()
    except ValueError as error:
        raise ValueError(f"{error}; {_WITHOUT}") from error


def sentence_files(
    source: ModelSource, embed_dim: int, *, max_length: int | None = None
) -> tuple[dict[str, bytes], list[str]]:
    """What sentence-transformers says of a model, for the folder of another one.

    Args:
      source: of the model.
      embed_dim: of the other one.
      max_length: tokens of its longest text; None: as there.

    Returns:
      ({name: content}, lines of a report: why there is none, if there should be one).
    """
    try:
        says = source.sentences
    except ValueError as error:
        return {}, [f"left out, how vectors are made: {error}"]
    if says is None:
        return {}, []
    if max_length is not None:
        says = dataclasses.replace(says, max_length=max_length)
    return sentence_folder.files_of(says, embed_dim), []


def saved(
    tokenizer: Tokenizer | None, labels: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, bytes]:
    """{name: content} of files in a folder of etc_jax.

    Args:
      tokenizer: of the model, if it is kept.
      labels: see `label_names`.
    """
    files = label_names.files_of(labels)
    return files if tokenizer is None else files | {TOKENIZER: tokenizer.saved()}


def hugging_face_files(
    tokenizer: Tokenizer | None, max_length: int | None
) -> dict[str, bytes]:
    """{name: content} of a tokenizer's files in a folder of Hugging Face.

    Raises:
      ValueError: if transformers has no counterpart.
    """
    if tokenizer is None:
        return {}
    try:
        return files_of(tokenizer, max_length)
    except ValueError as error:
        raise ValueError(f"{error}; {_WITHOUT}") from error


def tokenizer_note(tokenizer: Tokenizer | None) -> str:
    """A line on what of the tokenizer was written."""
    if tokenizer is None:
        return "no tokenizer: none was there to be written"
    return f"{tokenizer.kind} tokenizer of {tokenizer.vocab_size} ids"


def add_tokenizer_flag(parser: argparse._ActionsContainer) -> None:
    """Adds the flag that leaves a tokenizer out."""
    parser.add_argument(
        "--without_tokenizer", action="store_true", help="leave the vocabulary out"
    )


def carry_out(name: str, work: Callable[[], str], out: str) -> int:
    """Does the work of a command on the CPU and prints its report.

    Args:
      name: of the command, before its errors.
      work: writes the model and returns the report.
      out: where it is written.

    Returns:
      The exit code: 2 for bad input, 4 for a damaged run.
    """
    # Copying needs no accelerator, and must not take one from a running job.
    jax.config.update("jax_platforms", "cpu")

    def told() -> str:
        return f"{work()}\nwrote {out}\n{next_steps.of_folder(out)}".rstrip()

    return command_line.run(name, told)
