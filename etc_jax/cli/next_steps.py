"""What to do next with a model: a command, as the last line of another one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any

from etils import epath

from etc_jax.base.stores import is_address
from etc_jax.base.terminal import next_command
from etc_jax.config import Config
from etc_jax.conversion.formats import native
from etc_jax.generation import decoding
from etc_jax.loading import model_source
from etc_jax.loading.text_encoder import text_encoder_of
from etc_jax.training.checkpoints.folder import FOLDER

_BYTES = 256


def of_run(
    config: Config, workdir: str | os.PathLike, *, step: int | None = None
) -> str:
    """For a run that is finished; "" if no command reads its model.

    Args:
      config: of the run.
      workdir: of the run.
      step: of the checkpoint whose model is used; None: the newest.
    """
    folder = epath.Path(workdir)
    model = folder if step is None else folder / FOLDER / str(step)
    if config.data.source != "windows":
        return _of_model(config.model, model, config.data.gives)
    flags = (f"--model={model}", f"--out={_written(folder / 'evaluated')}")
    if files := config.data.validation_files:
        return next_command("evaluate", *flags, *files)
    return next_command("evaluate", *flags, "FILE", note="FILE has answers")


def of_folder(folder: str | os.PathLike) -> str:
    """For a model that was converted; "" if no command reads it."""
    try:
        source = model_source.find(folder)
        if source.run is not None:
            words = ("predict", f"--model={folder}", "FILE")
            return next_command(*words, note="FILE has records")
        gives = "text" if source.tokenizer is not None else None
        if gives is None and getattr(source.config, "vocab_size", None) == _BYTES:
            gives = "bytes"
        return _of_model(source.config, folder, gives)
    except ValueError:  # it is for another program
        return ""


def _of_model(config: Any, folder: str | os.PathLike, gives: str | None) -> str:
    """Writes or encodes a text, if the model is one of "text" or "bytes"."""
    family = native.family_of(config)
    if gives in ("text", "bytes") and _is_possible(
        lambda: decoding.decoder_of(family, config).check(1)
    ):
        flags = (f"--model={folder}", "--num_tokens=50", "--prompt=The ")
        return next_command("generate", *flags)
    if gives != "text" or not _is_possible(lambda: text_encoder_of(family, config)):
        return ""
    model = shlex.quote(f"--model={folder}")
    out = shlex.quote(f"--out={_written(folder).rstrip('/')}.npy")
    return f'next: echo "A first text." | etc-jax embed {model} {out} -'


def _written(path: str | os.PathLike) -> str:
    """The path of what a command writes, which is a folder here."""
    text = os.fspath(path)
    return text.partition("://")[2].replace("/", "_") if is_address(path) else text


def _is_possible(check: Callable[[], Any]) -> bool:
    try:
        check()
    except ValueError:
        return False
    return True
