"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Where to write a file or folder that gets its name when the block has ended.

    If the block raises, what was written is removed.
    """
    path = pathlib.Path(path)
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield part
        os.replace(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
