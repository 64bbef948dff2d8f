"""Makes window caches: parts of windows, in order, into the files of a folder.

Kept, LeftOut -> part_of -> `parts` -> build_windows
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.base import extras
from etc_jax.data.array_folder import TOKENIZER, GrowingArray
from etc_jax.data.digests import digest
from etc_jax.data.parts import Part
from etc_jax.data.schema import Schema
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.arrays import (
    array_kinds,
    counts_of,
    flatten,
    offsets_of,
    ragged_axes,
)
from etc_jax.data.windows.cache import CONTENTS_VERSION, FORMAT, WindowCache
from etc_jax.data.windows.versions import FORMERLY
from etc_jax.data.windows.window import Window

# How many records are named of those that were left out for one reason.
MOST_NAMES = 5

# (records, windows) written so far.
ProgressFn = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class WindowSource:
    """What windows are made of and how, and how they are asked for.

    Attributes:
      task: name of the data set.
      format: of the inputs.
      sizes: lengths of an input, padding included, by their names in a config.
      options: what else shapes the windows, as JSON values.
      made_by: what they are made of, as JSON values; a cache is reused only for an
        equal one.
    """

    task: str
    format: str
    sizes: Mapping[str, int]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    made_by: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def fingerprint(self, tokenizer: Tokenizer) -> str:
        """SHA-256, in hexadecimal, of all that the windows depend on."""
        # As in earlier versions, whose caches are found by it.
        sizes = {FORMERLY.get(k, k): length for k, length in self.sizes.items()}
        values = {"task": self.task, "options": self.options, "made_by": self.made_by}
        values |= sizes
        facts = [CONTENTS_VERSION, tokenizer.fingerprint(), values]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def files_and_packages(files: Sequence[str | os.PathLike]) -> dict[str, Any]:
    """What distinguishes one set of files from another, wherever they lie.

    Raises:
      OSError: if one cannot be read.
    """
    described = [[file.name, *digest(file)] for file in map(pathlib.Path, files)]
    packages = {name: extras.version(name) for name in _PACKAGES}
    return {"files": described, "packages": packages}


_PACKAGES = ("tokenizers", "sentencepiece", "nupunkt")


class LeftOut:
    """Counts what was left out, by reason, and keeps the first names of each.

    Attributes:
      counts: {reason: {"count": how often, "first": names of records}}.
    """

    def __init__(self, counts: Mapping[str, Mapping[str, Any]] | None = None):
        self.counts: dict[str, dict[str, Any]] = {}
        self.update(counts or {})

    def add(self, reason: str, name: str) -> None:
        """Counts one."""
        self.update({reason: {"count": 1, "first": [name]}})

    def update(self, counts: Mapping[str, Mapping[str, Any]]) -> None:
        """Counts what another one has counted after this one."""
        for reason, counted in counts.items():
            total = self.counts.setdefault(reason, {"count": 0, "first": []})
            total["count"] += counted["count"]
            total["first"] = [*total["first"], *counted["first"]][:MOST_NAMES]

    def lines(self) -> list[str]:
        """A line for each reason."""
        return [
            f"{entry['count']} x {reason}: {', '.join(map(repr, entry['first']))}"
            + (", ..." if entry["count"] > len(entry["first"]) else "")
            for reason, entry in self.counts.items()
        ]


class NoWindowError(ValueError):
    """There is no window to be kept."""


def part_of(
    windows: Sequence[Window], vocab_size: int, records: int, left_out: LeftOut
) -> Part:
    """What some records come to, for `build_windows`.

    Args:
      windows: those that are kept, in order.
      vocab_size: number of ids.
      records: how many records there were, with those that were left out.
      left_out: what was.

    Raises:
      ValueError: if a window cannot be kept as it is.
    """
    facts = {"records": records, "windows": len(windows), "left_out": left_out.counts}
    if not windows:
        return Part(facts | {"schema": None}, {})
    schema = windows[0].schema.of(windows[0])
    arrays = flatten(windows, schema, vocab_size)
    return Part(facts | {"schema": schema.to_json()}, arrays)


def build_windows(
    parts_fn: Callable[[pathlib.Path, pathlib.Path], Iterator[Part]],
    tokenizer: Tokenizer,
    path: str | os.PathLike,
    source: WindowSource,
    *,
    found_fn: Callable[[], Mapping[str, Mapping[str, Any]]] = dict,
    progress_fn: ProgressFn | None = None,
) -> WindowCache:
    """Makes a window cache, or opens the one that is already there.

    The folder appears whole or not at all. What a killed or failed run has finished
    waits in a hidden folder beside it, and the next run for the same source goes on
    from there. Of several processes that want the same cache, one makes it and the
    others wait.

    Args:
      parts_fn: from (saved tokenizer, folder for part files) to the parts, in order;
        not called if the cache exists.
      tokenizer: the vocabulary; it is saved with the cache.
      path: the folder to make.
      source: what the parts are made of.
      found_fn: what was odd or wrong in the source, {kind: {"count": how often,
        "first": messages}}; called after the last part.
      progress_fn: called now and then with (records, windows) written so far.

    Raises:
      NoWindowError: if no part has a window, with why; no file is left.
      ValueError: if `path` holds a cache that something else made, a damaged one, or
        other files.
    """
    path = pathlib.Path(path)
    fingerprint = source.fingerprint(tokenizer)
    # Parts of another version are none of this one.
    work = path.with_name(f".{path.name}-{FORMAT.version}-{fingerprint[:12]}")
    facts: dict[str, Any] = {}

    def write(folder: pathlib.Path) -> dict[str, Any] | None:
        parts = parts_fn(folder / TOKENIZER, work)
        with contextlib.closing(parts):
            facts.update(_write(parts, tokenizer, folder, progress_fn))
        facts.update(_describe(source, tokenizer, fingerprint), found=dict(found_fn()))
        return facts if facts["counts"]["windows"] else None

    FORMAT.build(path, work, tokenizer, write)
    if not FORMAT.is_at(path):
        raise _no_window(facts)
    _check_made(path, _describe(source, tokenizer, fingerprint))
    return WindowCache.open(path, tokenizer.fingerprint())


def _no_window(facts: Mapping[str, Any]) -> NoWindowError:
    reasons = LeftOut(facts["left_out"]).lines()
    for kind, problem in facts["found"].items():
        reasons.append(f"{problem['count']} x {kind}: {problem['first'][0]}")
    return NoWindowError(
        f"none of {facts['counts']['records']} records gives a window: "
        f"{'; '.join(reasons) or 'there is none'}; correct the files or the options"
    )


def _check_made(path: pathlib.Path, asked: Mapping[str, Any]) -> None:
    """Raises ValueError unless the cache is the one that is asked for."""
    header = FORMAT.read_header(path)
    if header.get("fingerprint") == asked["fingerprint"]:
        return
    if (contents := header.get("contents", 1)) != CONTENTS_VERSION:
        raise ValueError(
            f"{path} holds a {FORMAT.name} with contents of version {contents}, but "
            f"this etc_jax makes version {CONTENTS_VERSION}, in which answers may have "
            "other tokens; choose another folder, or delete this one to build it again"
        )
    for key in ("task", "sizes", "options", "vocabulary", "made_by"):
        if header.get(key) != asked[key]:
            raise ValueError(
                f"{path} holds a {FORMAT.name} with {key} {header.get(key)}, but asked "
                f"for is {asked[key]}; choose another folder, or delete this one to "
                "build it again"
            )
    FORMAT.check_made(path, asked["fingerprint"])


def _describe(source: WindowSource, tokenizer, fingerprint: str) -> dict[str, Any]:
    return {
        "task": source.task,
        "format": source.format,
        "sizes": dict(source.sizes),
        "options": dict(source.options),
        "made_by": dict(source.made_by),
        "fingerprint": fingerprint,
        "contents": CONTENTS_VERSION,
        "vocabulary": tokenizer.fingerprint(),
        "vocab_size": tokenizer.vocab_size,
        "id_dtype": tokenizer.id_dtype.name,
        "tokenizer": TOKENIZER,
    }


class _Files:
    """The growing arrays of a cache, opened with the first windows."""

    def __init__(self, folder: pathlib.Path, id_dtype: str):
        self._folder, self._id_dtype = folder, id_dtype
        self._open = contextlib.ExitStack()
        self.schema: Schema | None = None
        self.arrays: dict[str, GrowingArray] = {}
        self._ends: dict[str, int] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error) -> None:
        self._open.close()

    def append(self, part: Part) -> None:
        if part.facts["schema"] is None:
            return
        schema = Schema.from_json(part.facts["schema"])
        if self.schema is None:
            self._start(schema)
        if schema != self.schema:
            raise ValueError(
                f"windows of one cache differ: some have {self.schema}, others {schema}"
            )
        for name in array_kinds(schema, self._id_dtype):
            self.arrays[name].append(part.arrays[name])
        for axis, end in self._ends.items():
            # Counts of this part, as offsets that go on from the parts before.
            ends = end + np.cumsum(part.arrays[counts_of(axis)])
            self.arrays[offsets_of(axis)].append(ends)
            self._ends[axis] = int(ends[-1])

    def _start(self, schema: Schema) -> None:
        kinds = array_kinds(schema, self._id_dtype)
        self.schema, self._ends = schema, dict.fromkeys(ragged_axes(kinds), 0)
        dtypes = {name: kind.dtype for name, kind in kinds.items()}
        dtypes |= {offsets_of(axis): "int64" for axis in self._ends}
        for name, dtype in dtypes.items():
            array = GrowingArray(self._folder / f"{name}.npy", dtype)
            self.arrays[name] = self._open.enter_context(array)
        for axis in self._ends:
            self.arrays[offsets_of(axis)].append(np.zeros(1))


def _write(parts: Iterable[Part], tokenizer, folder, progress_fn) -> dict[str, Any]:
    """Writes the arrays; returns the header's facts about them."""
    left_out, records, windows = LeftOut(), 0, 0
    with _Files(folder, tokenizer.id_dtype.name) as files:
        for part in parts:
            files.append(part)
            left_out.update(part.facts["left_out"])
            records += part.facts["records"]
            windows += part.facts["windows"]
            if progress_fn is not None:
                progress_fn(records, windows)
    return {
        "schema": files.schema and files.schema.to_json(),
        "arrays": {name: array.described() for name, array in files.arrays.items()},
        "counts": {"records": records, "windows": windows},
        "left_out": left_out.counts,
    }
