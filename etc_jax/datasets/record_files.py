"""Releases whose records have files of their own, which a list or a folder names."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError, read_whole

# A release has its lists no deeper.
_LEVELS = 5


def nearest_folder(path: str | os.PathLike, *names: str) -> pathlib.Path | None:
    """A folder of a release, looked for beside a file of it and in the folders above.

    Args:
      path: of the file.
      *names: of the folder, with the folder that it is in or without.

    Returns:
      The nearest folder of any of these names; None if there is none.
    """
    # A linked list belongs to the folder in which the link is.
    for above in pathlib.Path(os.path.abspath(path)).parents[:_LEVELS]:
        for name in names:
            if (above / name).is_dir():
                return above / name
    return None


def no_folder(path: str | os.PathLike, expected: str) -> BadRecordError:
    """The error for a list of records whose files are not there.

    Args:
      path: of the list.
      expected: where they would be.
    """
    return BadRecordError(
        "unknown folder",
        f"{os.fspath(path)}: the files that it names are not beside it or above; "
        f"expected {expected}",
    )


def names_in(folder: str | os.PathLike, key: str) -> Iterator[tuple[int, Any]]:
    """(number from 1, {key: name}) of the files `.json` of a folder, by name."""
    files = sorted(file.name for file in pathlib.Path(folder).glob("*.json"))
    yield from enumerate(({key: name} for name in files), start=1)


def text_in(folder: pathlib.Path, name: str) -> str:
    """The text of a file below a folder.

    Args:
      folder: of the release.
      name: of the file, as a list of the release has it.

    Raises:
      BadRecordError: if the name leads out of the folder, or the file is not there or
        cannot be used. It names the file.
      OSError: if it cannot be read.
    """
    inner = pathlib.PurePosixPath(name)
    if inner.is_absolute() or ".." in inner.parts or "\0" in name:
        raise BadRecordError(
            "file outside", f"{name!r} is not the path of a file below {folder}"
        )
    try:
        return read_whole(folder / inner)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise BadRecordError("missing file", f"there is no {folder / inner}") from e
    except BadRecordError as e:
        raise e.at(os.fspath(folder / inner)) from e


def value_in(folder: pathlib.Path, name: str) -> Any:
    """The one JSON value of a file below a folder.

    Raises:
      BadRecordError, OSError: as for `text_in`; or if it is no JSON.
    """
    text = text_in(folder, name)
    try:
        return json.loads(text)
    except RecursionError as e:
        problem = "nested too deeply"
        raise BadRecordError("broken file", f"{folder / name}: {problem}") from e
    except ValueError as e:
        problem = f"{e}; expected one JSON value"
        raise BadRecordError("broken file", f"{folder / name}: {problem}") from e
