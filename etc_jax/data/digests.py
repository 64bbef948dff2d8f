"""Digests of what a run learns from, by name: they are kept with its checkpoints."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping

from etc_jax.base.local_paths import in_archive
from etc_jax.base.user_cache import as_given
from etc_jax.data.input_files import open_stored

# Of these, each is named; of more, all together: a checkpoint keeps the list.
MOST_NAMED = 100
_THREADS = 8  # reading and hashing both release the interpreter's lock


def sha256_of(file: str | os.PathLike) -> str:
    """Of the bytes of a file as they are stored, in hexadecimal (1.8 GB/s).

    Of a file in a zip archive, of its content: see `input_files.open_stored`.
    """
    with open_stored(file) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def of_files(files: Mapping[str, str | os.PathLike]) -> dict[str, str]:
    """{name: SHA-256} of the files {name: path}; each is read whole.

    Nothing is remembered beside path, size and time: a file can be changed and keep all
    three (`rsync --times`, a restored copy, a clock of one second).

    Raises:
      OSError: if one cannot be read.
    """
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        digests = list(pool.map(sha256_of, files.values()))
    return dict(zip(files, digests, strict=True))


def shortened(named: Mapping[str, str], what: str) -> dict[str, str]:
    """The digests, or one of them all if they are many.

    Args:
      named: {name: digest}.
      what: name of them all, such as "text".
    """
    # Copies of one object have other paths on other machines.
    named = {as_given(name): digest for name, digest in named.items()}
    if len(named) <= MOST_NAMED:
        return {f"{what} {name}": digest for name, digest in named.items()}
    text = json.dumps(sorted(named.items()))
    whole = hashlib.sha256(text.encode()).hexdigest()
    return {f"{what} ({len(named)} files)": whole}


def digest(path: str | os.PathLike) -> tuple[int, str]:
    """(bytes, SHA-256 in hexadecimal) of a file, or of all below a folder.

    Names count too in a folder, up to its own. The bytes are those on disk: of a file
    in a zip archive, those of the archive.

    Raises:
      OSError: if something cannot be read.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        stored, _ = in_archive(path) or (path, "")
        return os.path.getsize(stored), sha256_of(path)
    total, whole = 0, hashlib.sha256()
    for file in sorted(inner for inner in path.rglob("*") if inner.is_file()):
        content = file.read_bytes()
        total += len(content)
        name = file.relative_to(path).as_posix()
        # The size too, so that no content can pass for a name.
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return total, whole.hexdigest()
