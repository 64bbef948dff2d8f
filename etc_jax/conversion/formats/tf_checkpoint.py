"""Reads TensorFlow checkpoints (the V2 "tensor bundle") without TensorFlow.

A bundle is `<prefix>.index`, a sorted string table of protocol buffers that say where
each variable lies, and `<prefix>.data-00000-of-00001`, ... with the raw bytes. Only
what variables need is read; strings and sliced variables are errors. The checksums of
the index are verified, those of the data only on demand (`verify`), as they cost more
than reading.
"""

import functools
import pathlib
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from etc_jax.base.protocol_buffers import fields, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_BLOCK_TRAILER_BYTES = 5  # compression type, checksum
_DTYPES = {
    1: np.dtype("<f4"),
    2: np.dtype("<f8"),
    3: np.dtype("<i4"),
    4: np.dtype("u1"),
    5: np.dtype("<i2"),
    6: np.dtype("i1"),
    9: np.dtype("<i8"),
    10: np.dtype("?"),
    14: np.dtype(jnp.bfloat16),
    19: np.dtype("<f2"),
}


class _Entry(NamedTuple):
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


class TfCheckpoint(Mapping[str, np.ndarray]):
    """Variable name -> array; arrays are read when they are asked for.

    Args:
      path: prefix of the checkpoint ("…/model.ckpt"), or a folder that holds one.

    Raises:
      ValueError: if there is no checkpoint, or it is damaged.
    """

    def __init__(self, path: str | pathlib.Path):
        self._prefix = _prefix(pathlib.Path(path))
        entries = dict(_index_entries(pathlib.Path(f"{self._prefix}.index")))
        header = dict(fields(entries.pop(b"", b"")))
        self._num_shards = header.get(1, 1)
        if header.get(2, 0):
            raise ValueError(f"{self._prefix} was written on a big-endian machine")
        self._entries = {k.decode(): _entry(v) for k, v in sorted(entries.items())}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        if entry.dtype not in _DTYPES or entry.sliced:
            what = "is sliced" if entry.sliced else f"has TensorFlow type {entry.dtype}"
            raise ValueError(f"variable {name!r} {what}, which is not supported")
        dtype = _DTYPES[entry.dtype]
        raw = self._raw(name)
        if len(raw) != dtype.itemsize * int(np.prod(entry.shape, dtype=np.int64)):
            raise ValueError(
                f"variable {name!r} has {len(raw)} bytes, which is not {dtype} of "
                f"shape {entry.shape}; the checkpoint is damaged"
            )
        return np.frombuffer(raw, dtype).reshape(entry.shape)

    def _raw(self, name: str) -> bytes:
        entry = self._entries[name]
        path = f"{self._prefix}.data-{entry.shard:05d}-of-{self._num_shards:05d}"
        with open(path, "rb") as file:
            file.seek(entry.offset)
            raw = file.read(entry.size)
        if len(raw) != entry.size:
            raise ValueError(
                f"{path} ends within variable {name!r}; fetch the file again"
            )
        return raw

    def verify(self) -> None:
        """Compares the checksum of every variable; slow, about 5 MB a second.

        Raises:
          ValueError: naming the variables whose bytes have changed.
        """
        bad = [
            name
            for name, entry in self._entries.items()
            if _masked_crc32c(self._raw(name)) != entry.checksum
        ]
        if bad:
            raise ValueError(f"{self._prefix}: checksum is wrong for {bad}")


def _prefix(path: pathlib.Path) -> pathlib.Path:
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        if len(indices) != 1:
            raise ValueError(
                f"{path} holds {len(indices)} checkpoints "
                f"({[f.stem for f in indices]}); name one of them"
            )
        return indices[0].with_suffix("")
    if not pathlib.Path(f"{path}.index").exists():
        raise ValueError(
            f"no TensorFlow checkpoint at {path}: {path}.index does not exist"
        )
    return path


def _entry(message: bytes) -> _Entry:
    """A BundleEntryProto."""
    values = {}
    sliced = False
    for number, value in fields(message):
        values[number] = value
        sliced |= number == 7
    dims = [v for number, v in fields(values.get(2, b"")) if number == 2]
    shape = tuple(dict(fields(dim)).get(1, 0) for dim in dims)
    numbers = (values.get(i, 0) for i in (3, 4, 5, 6))
    return _Entry(values.get(1, 0), shape, *numbers, sliced)


def _index_entries(path: pathlib.Path) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of a sorted string table."""
    data = path.read_bytes()
    if len(data) < _FOOTER_BYTES or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError(f"{path} is not the index of a TensorFlow checkpoint")
    at = len(data) - _FOOTER_BYTES
    _, at = varint(data, at)  # the place and size of the meta index, unused
    _, at = varint(data, at)
    offset, at = varint(data, at)
    size, _ = varint(data, at)
    for _, handle in _block_entries(_block(path, data, offset, size)):
        offset, at = varint(handle, 0)
        size, _ = varint(handle, at)
        yield from _block_entries(_block(path, data, offset, size))


def _block(path: pathlib.Path, data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _BLOCK_TRAILER_BYTES > len(data):
        raise ValueError(f"{path} is cut short; fetch the file again")
    (checksum,) = struct.unpack_from("<I", data, end + 1)
    if _masked_crc32c(data[offset : end + 1]) != checksum:
        raise ValueError(f"{path} is damaged: wrong checksum; fetch the file again")
    if data[end]:
        raise ValueError(f"{path} is compressed (type {data[end]}): not supported")
    return data[offset:end]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys share a prefix with the key before; restart points end the block."""
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * restarts
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        unshared, at = varint(block, at)
        size, at = varint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + size]
        at += size


@functools.cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _masked_crc32c(data: bytes) -> int:
    """CRC-32C, rotated and shifted as the format stores it."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
