"""Files as one stream of bytes, and batches of it for a language model.

    train, valid, test = split(open_bytes(["enwik8"]), validation=0.05)
    batch = ByteReader(train, length=65_536, batch_size=8, seed=0).batch_at(step)

A byte is its own id. Batches are a function of the step, as everywhere.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from etc_jax.base import copies
from etc_jax.data.epochs import (
    BatchRows,
    EpochReader,
    Permutations,
    check_draws,
    positions,
)
from etc_jax.data.input_files import BadRecordError, check_growth
from etc_jax.data.pretraining import masking

BYTES = 256
# What stands before the first byte of a stream.
START = 0


def open_bytes(patterns: Sequence[str]) -> np.ndarray:
    """All bytes of some files, in the order of the patterns and of the names.

    One file is mapped into memory; several are read. Of a zip file its one member is
    read, as enwik8 and text8 come.

    Args:
      patterns: paths, or globs such as "logs/*.txt".

    Returns:
      uint8 `[bytes]`, not to be written to.

    Raises:
      ValueError: if a pattern matches no file, a zip file holds several, or there is no
        byte at all.
      OSError: if a file cannot be read.
    """
    files = files_of(patterns)
    parts = [_bytes_of(file) for file in files]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not len(whole):
        raise ValueError(f"no byte in {', '.join(map(str, files))}")
    return whole


def files_of(patterns: Sequence[str]) -> list[pathlib.Path]:
    """The files that `open_bytes` reads, in order.

    Raises:
      ValueError: if a pattern matches no file.
    """
    files = []
    for pattern in patterns:
        local = os.fspath(copies.local(pattern))
        if not (matches := sorted(glob.glob(local, recursive=True))):
            raise ValueError(f"{pattern!r} in data.paths matches no file")
        files += map(pathlib.Path, matches)
    return files


def _bytes_of(file: pathlib.Path) -> np.ndarray:
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            names = [x for x in archive.namelist() if not x.endswith("/")]
            if len(names) != 1:
                raise ValueError(
                    f"{file} holds {len(names)} files, expected one; unpack it"
                )
            member = archive.getinfo(names[0])
            try:
                check_growth(member.compress_size, member.file_size)
            except BadRecordError as e:
                raise e.at(str(file)) from e
            return np.frombuffer(archive.read(names[0]), np.uint8)
    if not file.stat().st_size:
        return np.zeros(0, np.uint8)
    return np.memmap(file, np.uint8, mode="r")


@dataclasses.dataclass(frozen=True)
class StreamSlice:
    """Some of a stream; what stands before it may be looked at.

    Attributes:
      stream: uint8 `[bytes]`, all of it.
      start, stop: the part.
    """

    stream: np.ndarray
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def split(
    stream: np.ndarray, validation: float
) -> tuple[StreamSlice, StreamSlice, StreamSlice]:
    """Training, validation and test bytes, by position (enwik8: 90, 5 and 5 million).

    Args:
      stream: uint8 `[bytes]`.
      validation: share of each of the last two.

    Raises:
      ValueError: if a part would be empty.
    """
    size = len(stream)
    validation_size = round(size * validation)
    train_size = size - 2 * validation_size
    if validation_size < 1 or train_size < 1:
        raise ValueError(
            f"{size} bytes with data.validation_fraction = {validation} leave "
            f"{train_size} to train on, {validation_size} for validation and "
            f"{validation_size} for test; each needs some"
        )
    return (
        StreamSlice(stream, 0, train_size),
        StreamSlice(stream, train_size, train_size + validation_size),
        StreamSlice(stream, train_size + validation_size, size),
    )


def next_symbol_batch(targets: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """A batch in which each symbol is predicted from the ones before it.

    Args:
      targets: int32 `[b, n]`.
      weights: float32 `[b, n]`, 1 for a target that counts.

    Returns:
      See `ByteReader`; a row begins after `START`.
    """
    tokens = np.full_like(targets, START)
    tokens[:, 1:] = targets[:, :-1]
    return {"tokens": tokens, "targets": targets, "target_weights": weights}


class ByteReader:
    """Batches of a part: each byte is predicted from the ones before it.

    In training, windows of an epoch lie side by side from a position drawn anew, in an
    order drawn anew. Keys of a batch, for b rows of n bytes:

        tokens           int32   [b, n], the byte before each target
        targets          int32   [b, n]
        target_weights   float32 [b, n], 1 for a target, 0 for padding
    """

    def __init__(self, part: StreamSlice, *, length: int, batch_size: int, seed: int):
        """See the class.

        Args:
          part: that is trained on.
          length: n.
          batch_size: rows of a whole batch, over all processes.
          seed: of order and positions.

        Raises:
          ValueError: if the part is shorter than a window.
        """
        check_draws(batch_size, seed)
        if len(part) < length:
            raise ValueError(
                f"there are {len(part)} bytes to train on, fewer than "
                f"data.input_length = {length}; lower it, or give more text"
            )
        self._part, self._length, self._batch_size = part, length, batch_size
        self._seed = seed
        # So many windows fit wherever the first one begins.
        self.num_examples = max(1, (len(part) - length + 1) // length)
        self._permutation = Permutations(self.num_examples, seed=seed)

    def batch_at(self, step: int, rows: BatchRows = None) -> dict[str, np.ndarray]:
        """The batch of one step, `[b, n]` arrays, whatever was read before.

        Args:
          step: 0, 1, ....
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        starts = []
        for position in positions(step, self._batch_size, rows):
            epoch, window = self._permutation.locate(position)
            starts.append(self._first(epoch) + window * self._length)
        return _windows(self._part, starts, [self._length] * len(starts), self._length)

    def _first(self, epoch: int) -> int:
        """Where the first window of an epoch begins."""
        slack = len(self._part) - self.num_examples * self._length
        rng = masking.generator(self._seed, epoch, 0)
        return self._part.start + int(rng.integers(min(slack, self._length - 1) + 1))


class ByteEvaluation(EpochReader):
    """Each byte of a part once, with as much before it as there is room for.

    Windows overlap: the first one counts whole, of each that follows the last
    `scored` bytes count, which have `length - scored` bytes before them at least.
    """

    def __init__(self, part: StreamSlice, *, length: int, scored: int, batch_size: int):
        """See the class; keys of a batch are those of `ByteReader`.

        Args:
          part: that is evaluated on.
          length: bytes of a window.
          scored: of those, that count.
          batch_size: rows of a batch, the last ones padding.

        Raises:
          ValueError: if `scored` is not in 1..length.
        """
        if not 1 <= scored <= length:
            raise ValueError(f"data.scored_length is {scored}, expected 1..{length}")
        self._part, self._length, size = part, length, len(part)
        later = range(min(length, size), size, scored)
        stops = [min(length, size), *(min(x + scored, size) for x in later)]
        self._counted = np.diff([0, *stops]).tolist()
        self._starts = [part.start + max(0, x - length) for x in stops]
        super().__init__(len(stops), batch_size=batch_size, evaluation=True)

    def _batch(self, items: Sequence[int | None]) -> dict[str, np.ndarray]:
        first = self._part.start
        starts = [first if i is None else self._starts[i] for i in items]
        counted = [0 if i is None else self._counted[i] for i in items]
        return _windows(self._part, starts, counted, self._length)


def _windows(part: StreamSlice, starts, counted, length: int) -> dict[str, np.ndarray]:
    """Windows of which the last so many bytes within the part count."""
    shape = (len(starts), length)
    tokens, targets = np.full(shape, START, np.int32), np.zeros(shape, np.int32)
    weights = np.zeros(shape, np.float32)
    for row, (start, count) in enumerate(zip(starts, counted, strict=True)):
        size = min(length, part.stop - start)
        targets[row, :size] = part.stream[start : start + size]
        tokens[row, 1:size] = targets[row, : size - 1]
        if start:
            # It may lie before the part: it is looked at, and not predicted.
            tokens[row, 0] = part.stream[start - 1]
        weights[row, size - count : size] = 1.0
    return {"tokens": tokens, "targets": targets, "target_weights": weights}
