"""Folders of flat arrays with a header, written once and mapped into memory.

The token cache and the window cache are such folders. One appears whole or not at all:
it is made under another name and renamed, and the header is its mark. The header holds
a checksum of every file and of itself, which are compared when a folder is opened: a
flipped bit in an array would otherwise be trained on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import logging
import os
import pathlib
import shutil
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import strict_json
from etc_jax.data.parts import NUMPY_UNREADABLE, remove_work_of, work_folder
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer

_LOG = logging.getLogger(__name__)

HEADER = "header.json"
TOKENIZER = "tokenizer.json"
_CHUNK_BYTES = 1 << 24
_HEAD_BYTES = 128  # of the files that are written here, before the values
_SEAL = "checksum"  # of the header itself


@dataclasses.dataclass(frozen=True)
class FolderFormat:
    """What a folder holds.

    Attributes:
      name: as messages call it, such as "token cache".
      version: of its files.
      unsealed: the earliest version that is still read, which has no checksums of
        header and tokenizer.
    """

    name: str
    version: int
    unsealed: int

    def is_at(self, path: pathlib.Path) -> bool:
        """Whether there is a finished folder."""
        return (path / HEADER).exists()

    def build(
        self,
        path: pathlib.Path,
        work: pathlib.Path,
        tokenizer: Tokenizer,
        write_fn: Callable[[pathlib.Path], Mapping[str, Any] | None],
    ) -> None:
        """Makes a folder that appears whole or not at all, unless it is there.

        Of several processes that want the same one, one makes it and the others wait.

        Args:
          path: of the folder.
          work: hidden folder beside it; finished parts in it outlive errors and kills.
          tokenizer: saved with it.
          write_fn: writes the other files into a folder that has the tokenizer, and
            gives the header's facts; None: there is nothing to keep.

        Raises:
          ValueError: if something else has the name.
        """
        if not self.is_at(path):
            self._check_free(path)
            with work_folder(work):
                if not self.is_at(path):  # nobody made it while this one waited
                    folder = work / "whole"
                    if folder.exists():  # of a killed run
                        shutil.rmtree(folder)
                    folder.mkdir()
                    tokenizer.save(folder / TOKENIZER)
                    if (facts := write_fn(folder)) is None:
                        return
                    self.write_header(folder, facts)
                    self._publish(folder, path)
        remove_work_of(path)

    def _check_free(self, path: pathlib.Path) -> None:
        """Raises ValueError if something stands there that is none and not empty."""
        if not path.is_dir():
            taken = path.exists()
        else:
            # In this order: another process may publish it just now.
            taken = any(path.iterdir()) and not self.is_at(path)
        if taken:
            raise self._foreign(path)

    def _publish(self, whole: pathlib.Path, path: pathlib.Path) -> None:
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
        """Writes the header, the last file: with the version and all checksums."""
        files = {TOKENIZER: zlib.crc32((folder / TOKENIZER).read_bytes())}
        facts = {**facts, "format_version": self.version, "files": files}
        (folder / HEADER).write_bytes(_sealed(json.loads(json.dumps(facts))))

    def read_header(self, path: pathlib.Path) -> dict[str, Any]:
        """What the header holds.

        Raises:
          FileNotFoundError: if there is none.
          ValueError: if it is damaged or of another version.
        """
        file = path / HEADER
        if not file.exists():
            raise FileNotFoundError(f"no {self.name} in {path} ({HEADER} is missing)")
        data = file.read_bytes()
        try:
            header = strict_json.loads(data)
            version, sealed = header["format_version"], _SEAL in header
        except (ValueError, KeyError, TypeError) as e:
            raise self.damaged_header(path, e) from e
        if version not in range(self.unsealed, self.version + 1):
            raise ValueError(
                f"{file}: format version {version}, expected {self.version}; "
                "build the cache again in another folder"
            )
        # A flipped bit may make a version another one, or hide the checksum.
        if sealed != (version > self.unsealed):
            raise self.damaged_header(path, ValueError(f"{_SEAL} and version disagree"))
        if sealed:
            header.pop(_SEAL)
            if data != _sealed(header):
                reason = ValueError("it differs from its own checksum")
                raise self.damaged_header(path, reason)
        return header

    def open_files(
        self,
        path: pathlib.Path,
        header: Mapping[str, Any],
        kinds: Mapping[str, tuple[str, int]],
    ) -> Contents:
        """Maps the arrays into memory and reads all files once (4 GB/s of CRC-32).

        Args:
          path: of the folder.
          header: of `read_header`.
          kinds: {array: (dtype, length)} by the header.

        Raises:
          ValueError: naming the file that is missing or damaged.
        """
        if header["format_version"] == self.unsealed:
            _LOG.warning(
                "%s was made by an earlier version, without checksums of all its "
                "files: damage to them is not noticed; build it again to have them",
                path,
            )
        for name, crc in header.get("files", {}).items():
            if _checksum_of(path / name) != crc:
                raise _differs(path / name)
        saved, arrays, checksums = header.get("arrays", {}), {}, {}
        for name, kind in kinds.items():
            file, wanted = path / f"{name}.npy", saved.get(name, {})
            # Before numpy reads it: a damaged head can make it warn or fail in any way.
            if "head" in wanted and _checksum_of(file, _HEAD_BYTES) != wanted["head"]:
                raise _differs(file)
            arrays[name] = map_array(file, *kind)
            checksums[name] = checksum(arrays[name])
            if wanted.get("checksum", checksums[name]) != checksums[name]:
                raise _differs(file)
        # Not of the path or the time: a copy of a folder has the same digest.
        facts = [header.get(x) for x in ("vocabulary", "schema")]
        text = json.dumps([*facts, kinds, checksums], sort_keys=True)
        return Contents(arrays, hashlib.sha256(text.encode()).hexdigest())

    def damaged_header(self, path: pathlib.Path, reason: Exception) -> ValueError:
        """The error for a header that cannot be used."""
        return ValueError(
            f"{path / HEADER} is damaged ({reason!r}); delete {path}, build it"
        )

    def check_made(self, path: pathlib.Path, fingerprint: str) -> None:
        """Raises ValueError if the folder is not that of a fingerprint."""
        actual = self.read_header(path)["fingerprint"]
        if actual != fingerprint:
            raise ValueError(
                f"{path} holds a {self.name} that was made differently (fingerprint "
                f"{actual[:12]}, wanted {fingerprint[:12]}; compare made_by in its "
                f"{HEADER}); choose another folder, or delete this one to build it "
                "again"
            )


class Contents(NamedTuple):
    """The files of a folder, verified.

    Attributes:
      arrays: by name, mapped into memory.
      digest: SHA-256, in hexadecimal, of vocabulary, kinds and checksums of the arrays:
        equal for equal contents in equal files, whatever the folder is called and
        whenever it was made.
    """

    arrays: dict[str, np.ndarray]
    digest: str


def _sealed(facts: Mapping[str, Any]) -> bytes:
    """The header of these facts, of which every byte is decided by them."""
    crc = zlib.crc32(json.dumps(facts, sort_keys=True).encode())
    return (json.dumps({**facts, _SEAL: crc}, indent=2, sort_keys=True) + "\n").encode()


def _differs(file: pathlib.Path) -> ValueError:
    return ValueError(
        f"{file} is damaged (its checksum is not that of {HEADER}); delete "
        f"{file.parent} and build the cache again"
    )


def _checksum_of(file: pathlib.Path, length: int = -1) -> int:
    """CRC-32 of the first bytes of a small file, or of all."""
    try:
        with open(file, "rb") as handle:
            return zlib.crc32(handle.read(length))
    except OSError as e:
        raise ValueError(
            f"{file} is damaged ({e}); delete {file.parent} and build the cache again"
        ) from e


def check_vocabulary(path: pathlib.Path, header, vocabulary: str | None) -> None:
    """Raises ValueError if a cache is not of a vocabulary; None: of any."""
    if vocabulary is not None and header["vocabulary"] != vocabulary:
        raise ValueError(
            f"{path / HEADER}: the cache was made with vocabulary "
            f"{header['vocabulary'][:12]}, but the tokenizer in use is "
            f"{vocabulary[:12]}; use the tokenizer that made it, or build the "
            "cache again in another folder"
        )


@dataclasses.dataclass(frozen=True)
class OpenFolder:
    """An open cache; its arrays are memory maps.

    Attributes:
      path: its folder.
      header: what `header.json` holds.
    """

    path: pathlib.Path
    header: Mapping[str, Any]

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that is saved with the cache.

        Raises:
          FileNotFoundError: if it is not there (a cache in memory has none).
          ValueError: if it is not the one that made the cache.
        """
        file, made_with = self.path / TOKENIZER, self.header["vocabulary"][:12]
        tokenizer = open_tokenizer(file)
        if tokenizer.fingerprint() != self.header["vocabulary"]:
            raise ValueError(
                f"{file} is vocabulary {tokenizer.fingerprint()[:12]}, but the cache "
                f"was made with {made_with}; delete {self.path} and build the cache "
                "again"
            )
        return tokenizer


class GrowingArray:
    """A one-dimensional .npy file that is appended to.

    Attributes:
      dtype: of the file.
      length: so far.
      checksum: CRC-32 of the values so far.
      head: CRC-32 of the bytes before the values, once the file is closed.
    """

    def __init__(self, path: pathlib.Path, dtype: np.dtype | type):
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.checksum = self.head = 0
        self._file = open(path, "wb")
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads headers so that the first axis can grow in place.
        descr = np.lib.format.dtype_to_descr(self.dtype)
        facts = {"descr": descr, "fortran_order": False, "shape": (self.length,)}
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, facts)
        self._file.write(head.getvalue())
        self.head = zlib.crc32(head.getvalue())
        assert len(head.getvalue()) == _HEAD_BYTES

    def described(self) -> dict[str, Any]:
        """What a header has about the closed file; see `FolderFormat.open_files`."""
        return {
            "dtype": self.dtype.name,
            "length": self.length,
            "checksum": self.checksum,
            "head": self.head,
        }

    def append(self, values: np.ndarray) -> None:
        """Writes values `[k]`, cast to the dtype of the file, after those before."""
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        self._file.write(data)
        self.checksum = zlib.crc32(data, self.checksum)
        self.length += len(values)

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *error) -> None:
        # The length is known only now; numpy left room for it in the header.
        self._file.seek(0)
        self._write_header()
        self._file.close()


def map_array(file: pathlib.Path, dtype: str, length: int) -> np.ndarray:
    """Maps a .npy file `[length]` of a known type.

    Raises:
      ValueError: if it is missing, damaged or another one.
    """
    remedy = f"delete {file.parent} and build the cache again"
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except NUMPY_UNREADABLE as e:
        raise ValueError(f"{file} is damaged ({e}); {remedy}") from e
    if array.shape != (length,) or array.dtype != dtype:
        raise ValueError(
            f"{file} holds {array.dtype.name}{list(array.shape)}, expected "
            f"{dtype}[{length}] by {HEADER}; {remedy}"
        )
    if (size := file.stat().st_size) != array.offset + array.nbytes:
        raise ValueError(
            f"{file} has {size} bytes, expected {array.offset + array.nbytes}; {remedy}"
        )
    return array


def checksum(array: np.ndarray) -> int:
    """CRC-32 of the values of an array `[k]`, as `GrowingArray` counts it."""
    step = max(_CHUNK_BYTES // array.itemsize, 1)
    crc = 0
    for start in range(0, len(array), step):
        crc = zlib.crc32(np.ascontiguousarray(array[start : start + step]), crc)
    return crc
