"""Sizes and checksums of a folder's files: what Orbax does not check.

A flipped bit in an array file restores without an error (measured: 48 of 48), so each
finished checkpoint gets a list of its files, verified before it is read. The list has
a checksum of its own; the first lists had none, and are read as well.
"""

import concurrent.futures
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from etils import epath

from etc_jax.base import strict_json
from etc_jax.base.whole_files import unfinished_target, write_whole

NAME = "manifest.json"
# Written into a finished checkpoint later, with a checksum of its own.
EVALUATION = "evaluation.json"
# What file systems and desktops put into any folder.
_NOISE = re.compile(r"\.DS_Store|\._.*|\.nfs.*")
_CHUNK_BYTES = 1 << 24
_THREADS = 8  # reading and checksums both release the interpreter's lock


def _files(folder: epath.Path) -> Iterator[epath.Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _listed_files(folder: epath.Path) -> dict[str, epath.Path]:
    """{name relative to the folder: path} of all files that a list is of."""
    files = {
        path.relative_to(folder).as_posix(): path
        for path in _files(folder)
        if not (_NOISE.fullmatch(path.name) or unfinished_target(path.name))
    }
    return {
        name: path for name, path in files.items() if name not in (NAME, EVALUATION)
    }


def _crc32(path: epath.Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def with_checksum(values: dict[str, Any], **options) -> str:
    """JSON of `values` and their checksum; see `read_with_checksum`."""
    return json.dumps({**values, "crc32": _crc32_of(values)}, **options)


def read_with_checksum(text: str, *fields: str) -> dict[str, Any]:
    """What `with_checksum` wrote, or the same without a checksum.

    Args:
      text: of the file.
      *fields: exactly these must be there.

    Raises:
      ValueError: if it is anything else.
    """
    values = strict_json.loads(text)
    if not isinstance(values, dict) or {*values} - {"crc32"} != {*fields}:
        raise ValueError(f"it has not the fields {', '.join(fields)}")
    if "crc32" in values and values.pop("crc32") != _crc32_of(values):
        raise ValueError("it differs from its own checksum")
    return values


def _crc32_of(values: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def write(folder: epath.PathLike) -> None:
    """Lists the files of `folder`; the list appears at once and whole."""
    folder = epath.Path(folder)
    files = {
        name: [path.stat().length, _crc32(path)]
        for name, path in _listed_files(folder).items()
    }
    write_whole(folder / NAME, with_checksum({"files": files}, indent=1))


def exists(folder: epath.PathLike) -> bool:
    """Whether the folder was finished: the list is written last."""
    return (epath.Path(folder) / NAME).exists()


def verify(folder: epath.PathLike) -> str | None:
    """What is wrong with the files of `folder`; None if they are as they were written.

    Raises:
      OSError: if the storage cannot be read.
    """
    folder = epath.Path(folder)
    if not exists(folder):
        return f"{NAME} is missing"
    try:
        expected = _list_in(folder)
    except ValueError as error:
        return f"{NAME} cannot be read ({error})"
    files = _listed_files(folder)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        faults = pool.map(lambda item: _fault(*item, files), expected.items())
        for fault in filter(None, faults):
            pool.shutdown(wait=False, cancel_futures=True)
            return fault
    if strays := sorted(files.keys() - expected.keys()):
        return f"file {strays[0]} is not in {NAME}"
    return None


def _list_in(folder: epath.Path) -> dict[str, tuple[int, int]]:
    """{name: (size, checksum)} as `write` listed them; ValueError if damaged."""
    try:
        listed = read_with_checksum((folder / NAME).read_text(), "files")["files"]
        return {name: (int(size), int(crc)) for name, (size, crc) in listed.items()}
    # Other errors of the storage say nothing of the list.
    except (TypeError, AttributeError, OverflowError, IsADirectoryError) as error:
        raise ValueError(str(error)) from error


def strays(folder: epath.PathLike) -> list[epath.Path]:
    """Files in a finished checkpoint that are not of it, of whoever put them there.

    Raises:
      ValueError: if the list is damaged.
      OSError: if the storage cannot be read.
    """
    folder = epath.Path(folder)
    files, expected = _listed_files(folder), _list_in(folder)
    return [files[name] for name in sorted(files.keys() - expected.keys())]


def _fault(name: str, wanted: tuple[int, int], files: dict) -> str | None:
    size, crc = wanted
    if name not in files:
        return f"file {name} is missing"
    if (length := files[name].stat().length) != size:
        return f"file {name} has {length} bytes, expected {size}"
    if _crc32(files[name]) != crc:
        return f"file {name} differs from its checksum"
    return None
