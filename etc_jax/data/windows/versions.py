"""What window caches of earlier versions call their arrays.

Until version 2 a window was long and global tokens, whatever the model: one sequence
was the long tokens, and `global_index` had one shape in all windows. Links had a file
for each column, and only long tokens had runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.base import registry
from etc_jax.data.schema import LABELS, SEPARATOR, Field, Schema
from etc_jax.data.windows.arrays import NAME_AXIS, ArrayKind, array_kinds, offsets_of

# The last version that had such names.
LAST = 2
_SEQUENCE, _STRUCTURED = "sequence", "structured"
_GLOBAL_INDEX = "global_index"
_NAMES = {
    _STRUCTURED: {
        "long_tokens": "long_ids",
        "global_tokens": "global_ids",
        "long_run_lengths": "run_lengths",
        "long_run_offsets": "run_offsets",
    },
    _SEQUENCE: {
        "tokens": "long_ids",
        "types": "long_types",
        "example_ids": "long_example_ids",
        "input_run_lengths": "run_lengths",
        "input_run_offsets": "run_offsets",
        "input_offsets": "long_offsets",
    },
}
OFFSETS = ("global_offsets", "long_offsets", "name_offsets", "run_offsets")
# Files of sequences that have nothing in them.
_EMPTY = {"global_ids": "id", "global_types": "uint8", "global_example_ids": "int16"}
# Names of lengths now, and in the fingerprints by which caches are found.
FORMERLY = {"input_length": "long_length"}


class Columns:
    """Columns `[rows]` read as one array: row by row, a value of each column."""

    def __init__(self, columns: Sequence[np.ndarray]):
        self._columns = tuple(columns)

    def __getitem__(self, part: slice) -> np.ndarray:
        """The flat values from one row to another; `part` counts values."""
        width = len(self._columns)
        if not width:
            return np.zeros(0, np.int16)
        # Windows are cut at whole rows, so that both divide.
        rows = slice(part.start // width, part.stop // width)
        return np.stack([x[rows] for x in self._columns], axis=1).reshape(-1)


def format_of(header: Mapping[str, Any]) -> str:
    """The format of the inputs; headers did not always say it."""
    is_sequence = _GLOBAL_INDEX in header["schema"].get("extra", {})
    return header.get("format", _SEQUENCE if is_sequence else _STRUCTURED)


def schema_of(header: Mapping[str, Any]) -> Schema:
    """The schema of the windows, as a cache of today has it.

    Raises:
      KeyError, TypeError, ValueError: if the header is damaged.
    """
    saved, name = header["schema"], format_of(header)
    declared: Schema = registry.lookup("format", name)
    present = {f"structure.{vector}" for vector in saved["optional"]}
    absent = declared.optional - present
    fields = {k: x for k, x in declared.fields.items() if k not in absent}
    if name == _STRUCTURED:
        links = "structure.links"
        fields[links] = fields[links]._replace(shape=(int(saved["links"]),))
    text = declared.text[0]
    for label, field in saved["labels"].items():
        fields[f"{LABELS}{SEPARATOR}{label}"] = _field(field, text)
    for extra, field in saved.get("extra", {}).items():
        if extra != _GLOBAL_INDEX:
            fields[extra] = _field(field, text)
    return dataclasses.replace(declared, fields=fields)


def sizes_of(header: Mapping[str, Any], schema: Schema) -> dict[str, int]:
    """The length of each axis that the windows were made for, of any version.

    Raises:
      KeyError, TypeError, ValueError: if the header is damaged.
    """
    saved = header["sizes"]
    names = {x: n if n in saved else FORMERLY[n] for x, n in schema.lengths.items()}
    return {axis: int(saved[name]) for axis, name in names.items()}


def _field(saved: Mapping[str, Any], text: str) -> Field:
    axes = {"scalar": None, "window": None, "long": text, "global": "global"}
    if saved["kind"] not in axes:
        raise ValueError(f"kind {saved['kind']!r}")
    shape = tuple(int(x) for x in saved.get("shape", ()))
    padding = int(saved.get("padding", 0))
    np.dtype(saved["dtype"])
    return Field(axes[saved["kind"]], saved["dtype"], shape, padding)


def file_kinds(schema: Schema, header: Mapping[str, Any]) -> dict[str, ArrayKind]:
    """What the array in each file is, without the offsets."""
    kinds = {}
    for name, kind in array_kinds(schema, header["id_dtype"]).items():
        for file in _files(name, schema):
            kinds[file] = kind
    if schema.name == _SEQUENCE:
        ids = {"id": header["id_dtype"]}
        kinds |= {k: ArrayKind(None, ids.get(x, x)) for k, x in _EMPTY.items()}
    return kinds


def _files(name: str, schema: Schema) -> list[str]:
    """The files of an array."""
    if name == "structure.links":
        [columns] = schema.fields[name].shape
        return [f"links_{column}" for column in range(columns)]
    if name in (names := _NAMES[schema.name]):
        return [names[name]]
    group, _, below = name.partition(SEPARATOR)
    if group == LABELS:
        return [f"label_{below}"]
    if group == "structure":
        return [below]
    declared = registry.lookup("format", schema.name).fields
    is_extra = name in schema.fields and (name not in declared or name == _GLOBAL_INDEX)
    return [f"extra_{name}"] if is_extra else [name]


def renamed(schema: Schema, header: Mapping[str, Any], arrays: Mapping[str, Any]):
    """The arrays by the names of today, offsets among them."""
    by_name: dict[str, Any] = {}
    for name in array_kinds(schema, header["id_dtype"]):
        files = [arrays[file] for file in _files(name, schema)]
        by_name[name] = files[0] if len(files) == 1 else Columns(files)
    axes = {kind.axis for kind in array_kinds(schema, header["id_dtype"]).values()}
    for axis in axes - {None}:
        [file] = _files(offsets_of(axis), schema)
        by_name[offsets_of(axis)] = arrays[file]
    if schema.name == _SEQUENCE:
        windows = len(arrays[offsets_of(NAME_AXIS)]) - 1
        # Then all windows had as many positions, with -1 after the last.
        index = np.reshape(by_name[_GLOBAL_INDEX], (windows, -1))
        by_name[_GLOBAL_INDEX] = index[index >= 0]
        ends = np.cumsum(np.sum(index >= 0, axis=1))
        by_name[offsets_of("global")] = np.concatenate([[0], ends])
    return by_name
