"""What the commands share that write a model."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable

import jax

from etc_jax import command_line
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer

_WITHOUT = "--without_tokenizer leaves it out"


def home_path(text: str) -> str:
    """An argparse type: a path, in which ~ is the user's folder."""
    # A shell leaves the tilde of --out=~/models alone.
    return str(pathlib.Path(text).expanduser())


def tokenizer_in(folder: str, vocab_size: int | None = None) -> Tokenizer | None:
    """The tokenizer in a folder, of Hugging Face or not; None if there is none.

    Data for the model is prepared with it, and a run that starts from the model
    compares its own with it.

    Args:
      folder: of a model.
      vocab_size: rows of the model's table, if it must have one for each id.

    Raises:
      ValueError: if there is one that cannot be kept, or that is not the model's.
    """
    try:
        tokenizer = open_tokenizer(folder)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{error}; {_WITHOUT}") from error
    if vocab_size is not None:
        check_ids(tokenizer, vocab_size, folder)
    return tokenizer


def check_ids(tokenizer: Tokenizer, vocab_size: int, place: str) -> None:
    """Refuses a tokenizer with ids that the model has no rows for.

    Raises:
      ValueError: if there is such an id.
    """
    if tokenizer.vocab_size > vocab_size:
        raise ValueError(
            f"the tokenizer in {place} has {tokenizer.vocab_size} ids, but the table "
            f"of the model {vocab_size} rows; give the vocabulary of the model, or "
            f"{_WITHOUT}"
        )


def saved(tokenizer: Tokenizer | None) -> dict[str, bytes]:
    """{name: content} of a tokenizer's file in a folder of etc_jax."""
    return {} if tokenizer is None else {TOKENIZER: tokenizer.saved()}


def hugging_face_files(
    tokenizer: Tokenizer | None, max_length: int
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
    return command_line.run(name, lambda: f"{work()}\nwrote {out}")
