"""Packages that only some work needs: imported where they are used."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import ModuleType


class MissingExtraError(ImportError, ValueError):
    """A package of an extra is not installed; it says how to get it."""


def version(package: str) -> str | None:
    """Of an installed package; None if it is not, as etc_jax where it lies."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def needed(module: str, *, extra: str, to: str) -> ModuleType:
    """A module of a package that an extra installs.

    Args:
      module: its name.
      extra: of setup.py, that has the package.
      to: what it is needed for, such as "split sentences".

    Raises:
      MissingExtraError: if the package, or one that it needs, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        raise MissingExtraError(
            f"{module.partition('.')[0]} is needed to {to}, and no module {e.name!r} "
            f'is installed: pip install "etc_jax[{extra}]"'
        ) from e
