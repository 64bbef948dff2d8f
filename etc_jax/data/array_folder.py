"""Folders of flat arrays with a header, written once and mapped into memory.

The token cache and the window cache are such folders. One appears whole or not at all:
it is made under another name and renamed, and the header is its mark.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.data.tokenizer import Tokenizer, open_tokenizer

HEADER = "header.json"
TOKENIZER = "tokenizer.json"
_CHUNK_BYTES = 1 << 24


@dataclasses.dataclass(frozen=True)
class FolderFormat:
    """What a folder holds.

    Attributes:
      name: as messages call it, such as "token cache".
      version: of its files.
    """

    name: str
    version: int

    def is_at(self, path: pathlib.Path) -> bool:
        """Whether there is a finished folder."""
        return (path / HEADER).exists()

    def check_free(self, path: pathlib.Path) -> None:
        """Raises ValueError if something stands there that is none and not empty."""
        if not path.is_dir():
            taken = path.exists()
        else:
            # In this order: another process may publish it just now.
            taken = any(path.iterdir()) and not self.is_at(path)
        if taken:
            raise self._foreign(path)

    def publish(self, whole: pathlib.Path, path: pathlib.Path) -> None:
        """Gives a finished folder its name.

        Raises:
          ValueError: if something else took the name meanwhile.
        """
        try:
            os.rename(whole, path)
        except OSError as e:
            # If another process was faster, the caller compares fingerprints.
            if not self.is_at(path):
                raise self._foreign(path) from e

    def _foreign(self, path: pathlib.Path) -> ValueError:
        return ValueError(
            f"{path} exists and is not a {self.name} ({HEADER} is missing); choose "
            "another folder"
        )

    def write_header(self, folder: pathlib.Path, facts: Mapping[str, Any]) -> None:
        """Writes the header, with the version of the format."""
        facts = {"format_version": self.version, **facts}
        text = json.dumps(facts, indent=2, sort_keys=True)
        (folder / HEADER).write_text(text + "\n", encoding="utf-8")

    def read_header(self, path: pathlib.Path) -> dict[str, Any]:
        """What the header holds.

        Raises:
          FileNotFoundError: if there is none.
          ValueError: if it is damaged or of another version.
        """
        file = path / HEADER
        if not file.exists():
            raise FileNotFoundError(f"no {self.name} in {path} ({HEADER} is missing)")
        try:
            header = json.loads(file.read_text(encoding="utf-8"))
            version = header["format_version"]
        except (ValueError, KeyError, TypeError) as e:
            raise self.damaged_header(path, e) from e
        if version != self.version:
            raise ValueError(
                f"{file}: format version {version}, expected {self.version}; "
                "build the cache again in another folder"
            )
        return header

    def damaged_header(self, path: pathlib.Path, reason: Exception) -> ValueError:
        """The error for a header that cannot be used."""
        return ValueError(
            f"{path / HEADER} is damaged ({reason!r}); delete {path}, build it"
        )

    def check_made(self, path: pathlib.Path, fingerprint: str) -> None:
        """Raises ValueError if the folder is not that of a fingerprint."""
        made = self.read_header(path)["fingerprint"]
        if made != fingerprint:
            raise ValueError(
                f"{path} holds a {self.name} that was made differently (fingerprint "
                f"{made[:12]}, wanted {fingerprint[:12]}; compare made_by in its "
                f"{HEADER}); choose another folder, or delete this one to build it "
                "again"
            )


def check_vocabulary(path: pathlib.Path, header, vocabulary: str | None) -> None:
    """Raises ValueError if a cache is not of a vocabulary; None: of any."""
    if vocabulary is not None and header["vocabulary"] != vocabulary:
        raise ValueError(
            f"{path / HEADER}: the cache was made with vocabulary "
            f"{header['vocabulary'][:12]}, but the tokenizer in use is "
            f"{vocabulary[:12]}; use the tokenizer that made it, or build the "
            "cache again in another folder"
        )


def load_tokenizer(path: pathlib.Path, header: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that is saved with a cache.

    Raises:
      FileNotFoundError: if it is not there (a cache in memory has none).
      ValueError: if it is not the one that made the cache.
    """
    tokenizer = open_tokenizer(path / TOKENIZER)
    if tokenizer.fingerprint() != header["vocabulary"]:
        raise ValueError(
            f"{path / TOKENIZER} is vocabulary {tokenizer.fingerprint()[:12]}, but the "
            f"cache was made with {header['vocabulary'][:12]}; delete {path} and build "
            "the cache again"
        )
    return tokenizer


def new_folder(path: pathlib.Path) -> pathlib.Path:
    """An empty folder in place of what a killed run left."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir()
    return path


class GrowingArray:
    """A one-dimensional .npy file that is appended to.

    Attributes:
      dtype: of the file.
      length: so far.
      checksum: CRC-32 of the values so far.
    """

    def __init__(self, path: pathlib.Path, dtype: np.dtype | type):
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.checksum = 0
        self._file = open(path, "wb")
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads headers so that the first axis can grow in place.
        descr = np.lib.format.dtype_to_descr(self.dtype)
        facts = {"descr": descr, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, facts)

    def append(self, values: np.ndarray) -> None:
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._file.write(data)
        self.checksum = zlib.crc32(data, self.checksum)
        self.length += len(values)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *error) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()


def map_array(file: pathlib.Path, dtype: str, length: int) -> np.ndarray:
    """Maps a one-dimensional .npy file of a known type and length.

    Raises:
      ValueError: if it is missing, damaged or another one.
    """
    remedy = f"delete {file.parent} and build the cache again"
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise ValueError(f"{file} is damaged ({e}); {remedy}") from e
    if array.shape != (length,) or array.dtype != dtype:
        raise ValueError(
            f"{file} holds {array.dtype.name}{list(array.shape)}, expected "
            f"{dtype}[{length}] by {HEADER}; {remedy}"
        )
    return array


def checksum(array: np.ndarray) -> int:
    """CRC-32 of the values of a one-dimensional array, as `GrowingArray` counts it."""
    step = max(_CHUNK_BYTES // array.itemsize, 1)
    crc = 0
    for start in range(0, len(array), step):
        crc = zlib.crc32(np.ascontiguousarray(array[start : start + step]), crc)
    return crc
