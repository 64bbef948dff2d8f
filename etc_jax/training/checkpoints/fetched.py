"""Models that lie in an object store, copied here before they are read.

The copies are kept beside the compiled programs of the user, so that the next command
fetches what has changed alone: size and CRC-32C of each file are those of its object.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
import pathlib
from collections.abc import Mapping

from etc_jax.base import stores
from etc_jax.base.stores import Object
from etc_jax.base.whole_files import unfinished_target, whole
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.folder import FOLDER, is_step
from etc_jax.training.preflight import compile_cache

_LOG = logging.getLogger(__name__)

_FOLDER = "models"
_THREADS = 8


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
    folder = compile_cache.root() / _FOLDER / os.fspath(path).partition("://")[2]
    _leave_only(folder, wanted)
    changed = {n: o for n, o in wanted.items() if not o.is_copied_to(folder / n)}
    if size := sum(one.size for one in changed.values()):
        _LOG.info("fetching %.3g MB of %s to %s", size / 1e6, path, folder)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        copies = pool.map(lambda n: _copy(changed[n], folder / n), changed)
        list(copies)  # raises what went wrong
    return folder


def _copy(source: Object, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part, part.open("wb") as file:
        source.copy_to(file)


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


def _leave_only(folder: pathlib.Path, wanted: Mapping[str, Object]) -> None:
    """Deletes copies of what has gone, such as of an older checkpoint."""
    for path in folder.rglob("*"):
        if unfinished_target(path.name):  # of a process that fetches it as well
            continue
        if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
            path.unlink(missing_ok=True)
