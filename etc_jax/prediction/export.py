"""From the checkpoint of a run to a folder that holds all that prediction needs."""

from __future__ import annotations

import dataclasses
import os

from etils import epath

from etc_jax.config import to_json
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.loading import model_card, run_results
from etc_jax.loading.model_card import Origin
from etc_jax.loading.model_source import generation_files
from etc_jax.prediction.model_files import CONFIG, open_model
from etc_jax.training.errors import UserError


def export_run(
    run: epath.PathLike,
    out: str | os.PathLike,
    *,
    step: int | None = None,
    overwrite: bool = False,
    by: str = "export_run",
) -> str:
    """Saves the model of a run, its tokenizer and its config; the report of it.

    Args:
      run: folder of a fine-tuning run, or of one of its checkpoints.
      out: folder to write; it appears whole or not at all.
      step: of the checkpoint; None: the newest one that is whole.
      overwrite: replace a model that was saved there.
      by: the command, for the card of the model.

    Raises:
      UserError, ValueError: if there is no such run, or `out` is taken.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    if native.exists(epath.Path(run).expanduser()):
        raise UserError(f"{run} is a saved model already; name the folder of a run")
    model = open_model(run, step)
    origin = Origin(str(run), by, model.source, is_source=True)
    about = {
        "made_from": {"run": str(run), "checkpoint": model.folder, "step": model.step},
        "objective": model.config.objective.name,
        "sha256": model.digest,
        run_results.FIELD: dataclasses.asdict(origin.results),
    }
    files = {
        CONFIG: f"{to_json(model.config)}\n".encode(),
        TOKENIZER: model.tokenizer.saved(),
    }
    files |= generation_files(model.config.model, model.config)
    files |= model_card.files_of(out, model.params, model.config.model, origin)
    native.save(
        out, model.params, model.config.model, about, files=files, overwrite=overwrite
    )
    arrays = len(flatten(model.params))
    return f"{arrays} arrays of step {model.step}, with {CONFIG} and {TOKENIZER}"
