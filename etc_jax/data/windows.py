"""The window cache: ready inputs of a task on disk, and batches of them.

    header.json             what it is, how large, which vocabulary, what made it
    tokenizer.json          the tokenizer, as it saves itself
    NAME.npy                the arrays of `window_arrays`, without padding
    AXIS_offsets.npy        int64 [windows + 1], where each window's part begins

    reader = WindowReader([WindowCache.open(folder)], long_length=4096,
                          global_length=256, batch_size=32, seed=0)
    batch = reader.batch_at(step)

A batch is a function of the step, as in pre-training: the state of the data in a
checkpoint is the step alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.config_upgrades import FORMERLY
from etc_jax.data import array_folder
from etc_jax.data.array_folder import FolderFormat
from etc_jax.data.epochs import (
    BatchRows,
    Permutations,
    check_draws,
    check_step,
    positions,
)
from etc_jax.data.tokenizer import Tokenizer
from etc_jax.data.window_arrays import (
    NAME_CODEC,
    RAGGED,
    EmptyBatch,
    WindowSchema,
)
from etc_jax.data.window_fields import Field
from etc_jax.structure import flat
from etc_jax.types import Rows

FORMAT = FolderFormat("window cache", 2, unsealed=1)
CONTENTS_VERSION = 1  # of what the arrays hold; a part of every fingerprint

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

# Further inputs are dicts of dicts, if a task has them so.
WindowBatch = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class WindowCache:
    """An open cache; the arrays are memory maps.

    Attributes:
      path: its folder.
      header: what `header.json` holds.
      schema: what its windows have in common.
      arrays: by name; see `window_arrays`.
      digest: of its contents; see `array_folder.Contents`.
    """

    path: pathlib.Path
    header: Mapping[str, Any]
    schema: WindowSchema
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
        # Headers did not always say it.
        is_sequence = "global_index" in self.schema.extra
        return self.header.get("format", "sequence" if is_sequence else "structured")

    @property
    def official_quirks(self) -> bool:
        """Whether the windows have what the official code does wrong."""
        return bool(self.header["options"].get("official_quirks", False))

    @property
    def input_options(self) -> tuple[str, ...]:
        """What else shaped the windows, as a config names it: "stride=256"."""
        options = dict(self.header["options"])
        options.pop("official_quirks", None)
        return tuple(f"{k}={json.dumps(x)}" for k, x in sorted(options.items()))

    @property
    def num_windows(self) -> int:
        return len(self.arrays["long_offsets"]) - 1

    @property
    def sizes(self) -> Rows:
        """Lengths of an input, padding included, that the windows were made for."""
        sizes = self.header["sizes"]
        return Rows(sizes["long_length"], sizes["global_length"])

    @property
    def longest(self) -> Rows:
        """Most long tokens, and most global tokens, of a window; without padding."""
        return Rows(
            *(
                int(np.diff(self.arrays[f"{axis}_offsets"]).max(initial=0))
                for axis in ("long", "global")
            )
        )

    @property
    def labels(self) -> Mapping[str, Field]:
        """What is to be learned, by name."""
        return self.schema.labels

    def record_id(self, index: int) -> str:
        """The record that a window was made of."""
        start, stop = self.arrays["name_offsets"][index : index + 2]
        return self.arrays["names"][start:stop].tobytes().decode(*NAME_CODEC)

    def window(self, index: int) -> dict[str, np.ndarray]:
        """One window's part of each array."""
        stop = index + 1
        parts = {axis: self.arrays[f"{axis}_offsets"][index:][:2] for axis in RAGGED}
        parts["window"] = (index, stop)
        kinds = self.schema.arrays(self.header["id_dtype"])
        found = {}
        for name, kind in kinds.items():
            first, last = (int(x) * kind.width for x in parts[kind.axis])
            found[name] = self.arrays[name][first:last]
        return found

    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that is saved with the cache.

        Raises:
          FileNotFoundError: if it is not there.
          ValueError: if it is not the one that made the cache.
        """
        return array_folder.load_tokenizer(self.path, self.header)

    @classmethod
    def open(
        cls, path: str | os.PathLike, vocabulary: str | None = None
    ) -> WindowCache:
        """Maps a cache into memory and reads it once, to compare checksums.

        Args:
          path: folder that `etc_jax.prepare` or `window_writing` wrote.
          vocabulary: `Tokenizer.fingerprint()` of the vocabulary in use; None: that of
            the cache, see `load_tokenizer`.

        Raises:
          FileNotFoundError: if there is no cache.
          ValueError: naming the file that is damaged, or what does not fit.
        """
        path = pathlib.Path(path)
        header = FORMAT.read_header(path)
        try:
            schema, files = _described(header)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise FORMAT.damaged_header(path, e) from e
        array_folder.check_vocabulary(path, header, vocabulary)
        arrays, digest = FORMAT.open_files(path, header, files)
        return cls(path, header, schema, arrays, digest)


def _described(header) -> tuple[WindowSchema, dict[str, tuple[str, int]]]:
    """(schema, {array: (dtype, length)}) by a header."""
    schema = WindowSchema.from_json(header["schema"])
    kinds = {k: kind.dtype for k, kind in schema.arrays(header["id_dtype"]).items()}
    kinds |= {f"{axis}_offsets": "int64" for axis in RAGGED}
    saved = header["arrays"]
    if saved.keys() != kinds.keys():
        raise ValueError(f"arrays are {sorted(saved)}, expected {sorted(kinds)}")
    for key, kind in _KEYS.items():
        if not isinstance(header[key], kind):
            raise TypeError(f"{key} is {header[key]!r}, expected {kind.__name__}")
    for side in ("long_length", "global_length"):
        int(header["sizes"][side])
    for name in kinds:
        int(saved[name]["checksum"])
    return schema, {
        name: (np.dtype(dtype).name, int(saved[name]["length"]))
        for name, dtype in kinds.items()
    }


class WindowReader:
    """Builds the batch of any step from the windows of some caches.

    In training, the batch of step s holds the positions `s * batch_size` and on of the
    endless row of epochs, each a new permutation of all windows. In evaluation there is
    one epoch, in order, and the rows that are left in the last batch are padding of
    weight 0.

    Keys of a batch; b rows, n long and g global positions:

        long_tokens, long_types       int32   [b, n]
        global_tokens, global_types   int32   [b, g]
        structure                     Structure
        labels                        {name: [b], [b, n, ...], [b, g, ...] or [b, ...]}
        weights                       float32 [b], 1 for a window, 0 for padding

    and what the windows have as `extra`, under the same names.
    """

    def __init__(
        self,
        caches: Sequence[WindowCache],
        *,
        long_length: int,
        global_length: int,
        batch_size: int,
        seed: int,
        evaluation: bool = False,
        flat: bool = False,
    ):
        """See the class.

        Args:
          caches: of one task, vocabulary and kind of window; they are one pool.
          long_length: n; no window has more long tokens.
          global_length: g; no window has more global tokens.
          batch_size: rows of a whole batch, over all processes.
          seed: of permutations.
          evaluation: one fixed epoch instead of endless ones.
          flat: the ablation without structure above sentences (`structure.flat`).

        Raises:
          ValueError: if the caches do not go together, have no window, or have windows
            that are too long.
        """
        check_draws(batch_size, seed)
        _check_together(caches)
        _check_lengths(caches, Rows(long_length, global_length))
        self._caches = list(caches)
        self._ends = np.cumsum([cache.num_windows for cache in caches])
        self._lengths = (long_length, global_length)
        self._batch_size, self._evaluation, self._flat = batch_size, evaluation, flat
        self._permutation = Permutations(self.num_examples, seed=seed)

    @property
    def num_examples(self) -> int:
        """Windows of an epoch."""
        return int(self._ends[-1])

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every window was seen: the last one may begin a new epoch."""
        return -(-self.num_examples // self._batch_size)

    def batch_at(self, step: int, rows: BatchRows = None) -> WindowBatch:
        """The batch of one step, whatever was read before.

        Args:
          step: 0, 1, ...; in evaluation below `steps_per_epoch`.
          rows: build only these rows of the batch (those of one process).

        Raises:
          IndexError: if the step is out of range.
        """
        if self._evaluation:
            check_step(step, self.steps_per_epoch)
        places = positions(step, self._batch_size, rows)
        schema = self._caches[0].schema
        batch = EmptyBatch.of(schema, len(places), *self._lengths)
        weights = np.zeros(len(places), np.float32)
        for row, position in enumerate(places):
            if self._evaluation and position >= self.num_examples:
                continue
            batch.fill(row, schema, self._window(position))
            weights[row] = 1.0
        return {
            "long_tokens": batch.tokens.long,
            "global_tokens": batch.tokens.global_,
            "long_types": batch.types.long,
            "global_types": batch.types.global_,
            "structure": flat(batch.structure) if self._flat else batch.structure,
            "labels": batch.labels,
            "weights": weights,
            **batch.extra,
        }

    def _window(self, position: int) -> dict[str, np.ndarray]:
        index = position
        if not self._evaluation:
            _, index = self._permutation.locate(position)
        number = int(np.searchsorted(self._ends, index, "right"))
        cache = self._caches[number]
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


def _check_lengths(caches: Sequence[WindowCache], asked: Rows) -> None:
    for cache in caches:
        for side, name in (("long", "long_length"), ("global_", "global_length")):
            length, longest = getattr(asked, side), getattr(cache.longest, side)
            if longest > length:
                raise ValueError(
                    f"{cache.path} has windows of up to {longest} {side.rstrip('_')} "
                    f"tokens, but data.{name} is {length}; raise data.{name}, or "
                    f"prepare the files again with --{name}={length}"
                )
