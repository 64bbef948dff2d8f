"""Folders that a run reads and writes, as absolute paths."""

from collections.abc import Callable

from etils import epath

from etc_jax.base import local_paths, stores
from etc_jax.training.errors import UserError


def local_folder(
    path: epath.PathLike,
    *,
    named: str,
    problem_fn: Callable[[epath.PathLike], str | None] = local_paths.problem,
) -> epath.Path:
    """The absolute path of a folder, which need not be there; ~ is the user's.

    Args:
      path: as it was given.
      named: what gave it, for the message.
      problem_fn: what is wrong with a path, as the end of a sentence.

    Raises:
      UserError: if it is an address that cannot be used.
    """
    if wrong := problem_fn(path):
        raise UserError(f"{named} {wrong}")
    return stores.absolute(path)


def run_folder(workdir: epath.PathLike) -> epath.Path:
    """`local_folder` of a run, which may be in an object store."""
    return local_folder(workdir, named="--workdir", problem_fn=stores.problem)
