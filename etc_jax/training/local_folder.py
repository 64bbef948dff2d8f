"""Folders that a run reads and writes, as absolute paths."""

from etils import epath

from etc_jax.base import local_paths, stores
from etc_jax.training.errors import UserError


def local_folder(path: epath.PathLike, *, named: str) -> epath.Path:
    """The absolute path of a folder, which need not be there; ~ is the user's.

    Args:
      path: as it was given.
      named: what gave it, for the message.

    Raises:
      UserError: if it is the address of an object store.
    """
    if wrong := local_paths.problem(path):
        raise UserError(f"{named} {wrong}")
    return stores.absolute(path)


def run_folder(path: epath.PathLike, *, named: str = "--workdir") -> epath.Path:
    """The absolute path of the folder of a run, which may be in an object store.

    Args:
      path: as it was given.
      named: what gave it, for the message.

    Raises:
      UserError: if it is an address that cannot be used.
    """
    if wrong := stores.problem(path):
        raise UserError(f"{named} {wrong}")
    return stores.absolute(path)
