"""What the commands share that write a model."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import jax

from etc_jax.data.cache import TOKENIZER
from etc_jax.data.tokenizer import open_tokenizer
from etc_jax.training.errors import RunError, UserError


def home_path(text: str) -> str:
    """An argparse type: a path, in which ~ is the user's folder."""
    # A shell leaves the tilde of --out=~/models alone.
    return str(pathlib.Path(text).expanduser())


def saved_tokenizer(folder: str) -> dict[str, bytes]:
    """The vocabulary in a folder, as a file beside the model; {} if there is none.

    Data for the model is prepared with it, and a run that starts from the model
    compares its own with it. Of one that cannot be read it is said so: some models have
    a tokenizer.json of Hugging Face alone.
    """
    try:
        tokenizer = open_tokenizer(folder)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        print(f"the model is written without a vocabulary: {error}", file=sys.stderr)
        return {}
    return {TOKENIZER: tokenizer.saved()}


def carry_out(name: str, work: Callable[[], str], out: str) -> int:
    """Does the work of a command on the CPU and tells of it.

    Args:
      name: of the command, before its errors.
      work: writes the model and returns what to tell.
      out: where it is written.

    Returns:
      The exit code: 2 for bad input, 4 for a damaged run.
    """
    # Copying needs no accelerator, and must not take one from a running job.
    jax.config.update("jax_platforms", "cpu")
    try:
        told = work()
    except (RunError, ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return getattr(error, "exit_code", UserError.exit_code)
    print(f"{told}\nwrote {out}")
    return 0
