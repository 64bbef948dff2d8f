"""Models that lie in an object store, copied here before they are read."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

from etc_jax.base import copies, stores, user_cache
from etc_jax.base.stores import Object
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.folder import FOLDER, is_step


def folder_of(address: str | os.PathLike, *, step: int | None = None) -> pathlib.Path:
    """The folder here with what lies below an address.

    Of a run that is one checkpoint, and the files that lie beside all of them.

    Args:
      address: of a run, of one of its checkpoints, or of a model.
      step: of the checkpoint; None: the newest that is finished.

    Raises:
      ValueError: if nothing is there, or not this checkpoint.
      OSError: if the store or the disk here refuses.
    """
    path = stores.absolute(address)
    if path.parent.name == FOLDER and is_step(path.name):
        folder = folder_of(path.parent.parent, step=int(path.name))
        return folder / FOLDER / path.name
    objects = {one.name: one for one in stores.below(path)}
    if not objects:
        raise ValueError(f"there is nothing below {path}; expected a run or a model")
    wanted = _of_one_checkpoint(objects, str(path), step)
    folder = copies.place(path, user_cache.MODELS)
    copies.leave_only(folder, wanted)
    copies.fetch(wanted, folder)
    return folder


def _of_one_checkpoint(
    objects: Mapping[str, Object], address: str, step: int | None
) -> dict[str, Object]:
    parts = {name: tuple(name.split("/")) for name in objects}
    finished = {
        int(number)
        for folder, number, *rest in (x for x in parts.values() if len(x) > 2)
        if folder == FOLDER and is_step(number) and rest == [manifest.NAME]
    }
    if step is not None and step not in finished:
        listed = ", ".join(map(str, sorted(finished))) or "none"
        raise ValueError(
            f"no finished checkpoint of step {step} in {address}; of: {listed}"
        )
    chosen = max(finished, default=None) if step is None else step
    # What a run reports, and its data, is of no use to its model.
    return {
        name: objects[name]
        for name, path in parts.items()
        if path[:2] == (FOLDER, str(chosen)) or path[0] != FOLDER
    }
