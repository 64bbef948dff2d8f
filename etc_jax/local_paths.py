"""Paths are of file systems here: addresses of object stores are refused.

`gs://bucket/run` given to `pathlib` or made absolute is a folder `gs:` in the current
one, to which a run would be written without a word.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import Any

# One slash: `pathlib` leaves no more. One letter alone is a drive of Windows.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
# What a disk says that is full, or lets nobody write more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def problem(path: str | os.PathLike) -> str | None:
    """What is wrong with a path, as the end of a sentence; None if nothing."""
    text = os.fspath(path)
    if not _ADDRESS.match(text):
        return None
    return (
        f"is {text!r}; expected a path of a file system here: object stores and other "
        "addresses cannot be used. Mount it, or copy what is needed"
    )


def paths_in(value: Any) -> Iterator[str | os.PathLike]:
    """The texts and paths in a value, and in lists and tuples of them."""
    if isinstance(value, str | os.PathLike):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from paths_in(part)


def problems_in(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, what is wrong) of each address among the values of a config."""
    for name, value in fields.items():
        for part in paths_in(value):
            if wrong := problem(part):
                yield name, wrong


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """An error of writing within the block names the path.

    The system names a file when it is opened, and no longer when the disk is full;
    numpy then only says how many bytes it has written.

    Raises:
      OSError: that of the block, with the path.
    """
    try:
        yield
    except OSError as error:
        of_numpy = error.errno is None and " writ" in str(error)
        if error.filename is not None or not (error.errno in FULL or of_numpy):
            raise
        code, message = error.errno or errno.ENOSPC, error.strerror or str(error)
        raise OSError(code, message, os.fspath(path)) from error
