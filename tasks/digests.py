"""What files hold, in one number: their SHA-256."""

from __future__ import annotations

import hashlib
import os
import pathlib


def digest(path: str | os.PathLike) -> tuple[int, str]:
    """(bytes, SHA-256 in hexadecimal) of a file, or of all below a folder.

    Names count too in a folder, up to its own.

    Raises:
      OSError: if something cannot be read.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        with open(path, "rb") as file:
            return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    total, whole = 0, hashlib.sha256()
    for file in sorted(inner for inner in path.rglob("*") if inner.is_file()):
        content = file.read_bytes()
        total += len(content)
        name = file.relative_to(path).as_posix()
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return total, whole.hexdigest()
