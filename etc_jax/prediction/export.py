"""From the checkpoint of a run to a folder that holds all that prediction needs."""

from __future__ import annotations

import os

from etils import epath

from etc_jax.config import to_json
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.loading.model_source import generation_files
from etc_jax.prediction.model_files import CONFIG, open_model
from etc_jax.training.errors import UserError


def export_run(
    run: epath.PathLike,
    out: str | os.PathLike,
    *,
    step: int | None = None,
    overwrite: bool = False,
) -> str:
    """Saves the model of a run, its tokenizer and its config; the report of it.

    Args:
      run: folder of a fine-tuning run, or of one of its checkpoints.
      out: folder to write; it appears whole or not at all.
      step: of the checkpoint; None: the newest one that is whole.
      overwrite: replace a model that was saved there.

    Raises:
      UserError, ValueError: if there is no such run, or `out` is taken.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    if native.exists(epath.Path(run).expanduser()):
        raise UserError(f"{run} is a saved model already; name the folder of a run")
    model = open_model(run, step)
    about = {
        "made_from": {"run": str(run), "checkpoint": model.folder, "step": model.step},
        "objective": model.config.objective.name,
        "sha256": model.digest,
    }
    files = {
        CONFIG: f"{to_json(model.config)}\n".encode(),
        TOKENIZER: model.tokenizer.saved(),
    }
    files |= generation_files(model.config.model, model.config)
    native.save(
        out, model.params, model.config.model, about, files=files, overwrite=overwrite
    )
    arrays = len(flatten(model.params))
    return f"{arrays} arrays of step {model.step}, with {CONFIG} and {TOKENIZER}"
