"""The window cache: ready inputs of a task on disk, and batches of them.

    header.json             what it is, how large, which vocabulary, what made it
    tokenizer.json          the tokenizer, as it saves itself
    NAME.npy                the arrays of `window_arrays`, without padding

    reader = WindowReader([WindowCache.open(folder)], batch_size=32, seed=0,
                          lengths={"long": 4096, "global": 256})
    batch = reader.batch_at(step)

A batch is a function of the step, as in pre-training: the state of the data in a
checkpoint is the step alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.base import copies
from etc_jax.config.upgrades import FORMERLY
from etc_jax.data import array_folder
from etc_jax.data.array_folder import FolderFormat, OpenFolder
from etc_jax.data.epochs import EpochReader
from etc_jax.data.schema import LABELS, SEPARATOR, WEIGHTS, Field, Schema
from etc_jax.data.windows import versions as window_versions
from etc_jax.data.windows.arrays import (
    NAME_AXIS,
    NAME_CODEC,
    NAMES,
    ArrayKind,
    array_kinds,
    fill,
    offsets_of,
    ragged_axes,
)
from etc_jax.structure import flat

FORMAT = FolderFormat("window cache", 3, unsealed=1)
# Of what the arrays hold; a part of every fingerprint. 2: pieces of text end after the
# accents that tokenizers drop, and begin after the space before a word.
CONTENTS_VERSION = 2

# What a header has beside what the arrays are opened with.
_KEYS = {
    "task": str,
    "vocabulary": str,
    "vocab_size": int,
    "sizes": dict,
    "options": dict,
    "counts": dict,
    "left_out": dict,
    "found": dict,
    "made_by": dict,
    "fingerprint": str,
}

# See `etc_jax.formats`.
WindowBatch = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class WindowCache(OpenFolder):
    """An open cache.

    Attributes:
      schema: what its windows have in common.
      arrays: by name; see `window_arrays`.
      digest: of its contents; see `array_folder.Contents`.
    """

    schema: Schema
    arrays: Mapping[str, np.ndarray]
    digest: str

    @property
    def task(self) -> str:
        """Name of the data set."""
        name = self.header["task"]
        return FORMERLY.get(name, name)

    @property
    def format(self) -> str:
        """Of the inputs; see `etc_jax.formats`."""
        return self.schema.name

    @property
    def official_quirks(self) -> bool:
        """Whether the windows have what the official code does wrong."""
        return bool(self.header["options"].get("official_quirks", False))

    @property
    def input_options(self) -> tuple[str, ...]:
        """What else shaped the windows, as a config names it: "stride=256"."""
        options = dict(self.header["options"])
        options.pop("official_quirks", None)
        options = sorted(options.items())
        return tuple(f"{k}={json.dumps(x, ensure_ascii=False)}" for k, x in options)

    @property
    def ids(self) -> dict[str, np.ndarray]:
        """All token ids, int `[tokens]`, by the file that they are in."""
        tables = self.schema.tables.items()
        names = [name for name, table in tables if table == "vocab_size"]
        return {f"{self.path}: {name}": self.arrays[name] for name in names}

    @property
    def num_windows(self) -> int:
        return len(self.arrays[offsets_of(NAME_AXIS)]) - 1

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of an input, padding included, that the windows were made for."""
        return window_versions.sizes_of(self.header, self.schema)

    @property
    def longest(self) -> dict[str, int]:
        """Most that a window has along each axis, without padding."""
        return {
            axis: int(np.diff(self.arrays[offsets_of(axis)]).max(initial=0))
            for axis in self.schema.lengths
        }

    @property
    def labels(self) -> dict[str, Field]:
        """What is to be learned, by name."""
        prefix = LABELS + SEPARATOR
        fields = self.schema.fields.items()
        return {k.removeprefix(prefix): x for k, x in fields if k.startswith(prefix)}

    @functools.cached_property
    def _kinds(self) -> dict[str, ArrayKind]:
        return array_kinds(self.schema, self.header["id_dtype"])

    @functools.cached_property
    def _ragged(self) -> list[str]:
        return ragged_axes(self._kinds)

    def record_id(self, index: int) -> str:
        """The record that a window was made of."""
        start, stop = self.arrays[offsets_of(NAME_AXIS)][index : index + 2]
        return self.arrays[NAMES][start:stop].tobytes().decode(*NAME_CODEC)

    def window(self, index: int) -> dict[str, np.ndarray]:
        """One window's part of each array, flat: `[values]`."""
        parts: dict[str | None, Any] = {
            axis: self.arrays[offsets_of(axis)][index:][:2] for axis in self._ragged
        }
        parts[None] = (index, index + 1)
        arrays = {}
        for name, kind in self._kinds.items():
            start, stop = (int(x) * kind.width for x in parts[kind.axis])
            arrays[name] = self.arrays[name][start:stop]
        return arrays

    @classmethod
    def open(
        cls, path: str | os.PathLike, vocabulary: str | None = None
    ) -> WindowCache:
        """Maps a cache into memory and reads it once, to compare checksums.

        Args:
          path: folder that `etc-jax prepare` or `window_writing` wrote.
          vocabulary: `Tokenizer.fingerprint()` of the vocabulary in use; None: that of
            the cache, see `load_tokenizer`.

        Raises:
          FileNotFoundError: if there is no cache.
          ValueError: naming the file that is damaged, or what does not fit.
        """
        path = pathlib.Path(copies.local(path))
        header = FORMAT.read_header(path)
        is_earlier = header["format_version"] <= window_versions.LAST
        try:
            schema, files = _described(header, is_earlier)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise FORMAT.damaged_header(path, e) from e
        array_folder.check_vocabulary(path, header, vocabulary)
        arrays, digest = FORMAT.open_files(path, header, files)
        if is_earlier:
            arrays = window_versions.renamed(schema, header, arrays)
        return cls(path, header, schema, arrays, digest)


def _described(header, is_earlier: bool) -> tuple[Schema, dict[str, tuple[str, int]]]:
    """(schema, {file: (dtype, length)}) by a header."""
    if is_earlier:
        schema = window_versions.schema_of(header)
        kinds = window_versions.file_kinds(schema, header)
        offsets = window_versions.OFFSETS
    else:
        schema = Schema.from_json(header["schema"])
        kinds = array_kinds(schema, header["id_dtype"])
        offsets = tuple(map(offsets_of, ragged_axes(kinds)))
    dtypes = {k: kind.dtype for k, kind in kinds.items()}
    dtypes |= dict.fromkeys(offsets, "int64")
    saved = header["arrays"]
    if saved.keys() != dtypes.keys():
        raise ValueError(f"arrays are {sorted(saved)}, expected {sorted(dtypes)}")
    for key, kind in _KEYS.items():
        if not isinstance(header[key], kind):
            raise TypeError(f"{key} is {header[key]!r}, expected {kind.__name__}")
    window_versions.sizes_of(header, schema)
    for name in dtypes:
        int(saved[name]["checksum"])
    return schema, {
        name: (np.dtype(dtype).name, int(saved[name]["length"]))
        for name, dtype in dtypes.items()
    }


class WindowReader(EpochReader):
    """Batches of the windows of some caches, padding of weight 0.

    A batch has the format of the windows, see `etc_jax.formats`.
    """

    def __init__(
        self,
        caches: Sequence[WindowCache],
        *,
        lengths: Mapping[str, int],
        flat: bool = False,
        **order: Any,
    ):
        """See the class.

        Args:
          caches: of one task, vocabulary and kind of window; they are one pool.
          lengths: of each axis of the schema; no window has more.
          flat: the ablation without structure above sentences (`structure.flat`).
          **order: batch_size, seed and evaluation of `EpochReader`.

        Raises:
          ValueError: if the caches do not go together, have no window, or have windows
            that are too long.
        """
        # One pool: what differs would mix inputs of two kinds in a batch.
        _check_together(caches)
        _check_lengths(caches, lengths)
        self._caches = list(caches)
        self._ends = np.cumsum([cache.num_windows for cache in caches])
        self._lengths = dict(lengths)
        self._flat = flat
        super().__init__(int(self._ends[-1]), **order)

    def _batch(self, items: Sequence[int | None]) -> WindowBatch:
        schema = self._caches[0].schema
        arrays = schema.empty(len(items), self._lengths)
        arrays[WEIGHTS] = np.zeros(len(items), np.float32)
        for row, item in enumerate(items):
            if item is not None:
                fill(arrays, row, schema, self._window(item))
                arrays[WEIGHTS][row] = 1.0
        batch = schema.batch(arrays)
        if self._flat:
            batch["structure"] = flat(batch["structure"])
        return batch

    def _window(self, index: int) -> dict[str, np.ndarray]:
        number = int(np.searchsorted(self._ends, index, "right"))
        cache = self._caches[number]
        # `_ends` has the window after the last one of each cache.
        return cache.window(index - int(self._ends[number]) + cache.num_windows)


def _check_together(caches: Sequence[WindowCache]) -> None:
    if not caches or not any(cache.num_windows for cache in caches):
        raise ValueError(
            f"{len(caches)} window caches with no window; expected at least one"
        )
    first, *others = caches
    for other in others:
        for what, of_first, of_other in (
            ("task", first.task, other.task),
            ("vocabulary", first.header["vocabulary"], other.header["vocabulary"]),
            ("options", first.header["options"], other.header["options"]),
            ("schema", first.schema, other.schema),
        ):
            if of_first != of_other:
                raise ValueError(
                    f"{other.path} has {what} {of_other}, but {first.path} has "
                    f"{of_first}; caches that are read together are made with the same "
                    "task, tokenizer and options"
                )


def _check_lengths(caches: Sequence[WindowCache], asked: Mapping[str, int]) -> None:
    for cache in caches:
        for axis, longest in cache.longest.items():
            if longest > asked[axis]:
                name = cache.schema.lengths[axis]
                raise ValueError(
                    f"{cache.path} has windows of up to {longest} {axis} tokens, but "
                    f"data.{name} is {asked[axis]}; raise data.{name}, or prepare the "
                    f"files again with --{name}={asked[axis]}"
                )
