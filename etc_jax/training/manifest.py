"""Sizes and checksums of a folder's files: what Orbax does not check.

A flipped bit in an array file restores without an error (measured: 48 of 48), so each
finished checkpoint gets a list of its files, verified before it is read.
"""

import json
import zlib
from collections.abc import Iterator

from etils import epath

NAME = "manifest.json"
_CHUNK_BYTES = 1 << 24


def _files(folder: epath.Path) -> Iterator[epath.Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        elif path.name != NAME:
            yield path


def _crc32(path: epath.Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def write_atomically(path: epath.Path, text: str) -> None:
    """Writes a file that is either the old one or the whole new one."""
    part = path.parent / f"{path.name}.part"
    part.write_text(text)
    part.replace(path)


def write(folder: epath.PathLike) -> None:
    """Lists the files of `folder`; the list appears at once and whole."""
    folder = epath.Path(folder)
    files = {
        str(path.relative_to(folder)): [path.stat().length, _crc32(path)]
        for path in _files(folder)
    }
    write_atomically(folder / NAME, json.dumps({"files": files}, indent=1))


def exists(folder: epath.PathLike) -> bool:
    """Whether the folder was finished: the list is written last."""
    return (epath.Path(folder) / NAME).exists()


def verify(folder: epath.PathLike) -> str | None:
    """What is wrong with the files of `folder`; None if they are as they were written.

    Raises:
      OSError: if the storage cannot be read.
    """
    folder = epath.Path(folder)
    try:
        listed = json.loads((folder / NAME).read_text())["files"]
        expected = {name: (int(size), int(crc)) for name, (size, crc) in listed.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{NAME} cannot be read ({error})"
    for name, (size, crc) in expected.items():
        path = folder / name
        if not path.exists():
            return f"file {name} is missing"
        if path.stat().length != size:
            return f"file {name} has {path.stat().length} bytes, expected {size}"
        if _crc32(path) != crc:
            return f"file {name} differs from its checksum"
    return None
