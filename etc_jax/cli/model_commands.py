"""What the commands share that write a model."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

import jax

from etc_jax.base import registry
from etc_jax.base.local_paths import MODEL, OUTPUT
from etc_jax.cli import command_line, next_steps
from etc_jax.conversion.formats import native
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.loading import model_source
from etc_jax.loading.companions import Companions
from etc_jax.loading.model_source import ModelSource
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig

T = TypeVar("T")
_KINDS = (EncoderConfig, EncoderDecoderConfig)


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """Adds those of a command that makes a model of another one."""
    add = parser.add_argument
    add("--from", dest="source", metavar="FOLDER", type=MODEL, required=True)
    add("--step", type=int, help="of a run; default: the newest checkpoint")
    add("--out", required=True, type=OUTPUT, help="folder to write")
    add("--overwrite", action="store_true", help="replace a model that --out holds")


def find_source(name: str, step: int | None, purpose: str) -> ModelSource:
    """The encoder, or the encoder-decoder, of a folder or a name.

    Args:
      name: see `model_source.find`.
      step: of a run; None: the newest checkpoint.
      purpose: what is done to such models alone, for the error.

    Raises:
      ValueError, RunError: if there is no model, or another kind of one.
    """
    source = model_source.find(name, step, named="--from")
    if not isinstance(source.config, _KINDS):
        families = registry.names("model_config")
        kinds = (registry.lookup("model_config", name) for name in families)
        names = ", ".join(kind.__name__ for kind in kinds if issubclass(kind, _KINDS))
        raise ValueError(
            f"{name} is a {native.family_of(source.config)}; what can be {purpose} are "
            f"models of {names.replace('Config', '')}"
        )
    return source


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
    with may_be_left_out():
        return read()


@contextlib.contextmanager
def may_be_left_out() -> Iterator[None]:
    """Errors of a tokenizer say how a model is written without it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}; --without_tokenizer leaves it out") from error


def companions_of(
    source: ModelSource, tokenizer: Tokenizer | None, *, max_length: int | None = None
) -> tuple[Companions, list[str]]:
    """What goes with a model that is made of another one.

    Args:
      source: the other one.
      tokenizer: of the model; None: none is kept.
      max_length: tokens of the longest text that it encodes; None: as there.

    Returns:
      (that, lines of a report: what is left out, if there is something).
    """
    try:
        sentences, notes = source.sentences, []
    except ValueError as error:
        sentences, notes = None, [f"left out, how vectors are made: {error}"]
    if sentences is not None and max_length is not None:
        sentences = dataclasses.replace(sentences, max_length=max_length)
    return source.companions(tokenizer, sentences), notes


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
