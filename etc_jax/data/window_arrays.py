"""Windows of a task as flat arrays without padding, and back.

A window is ids, token types, a structure of vectors and labels, padded to a common
length. Here its padding is cut off, and what tells long tokens apart from each other
besides their ids (type, segment, links, ...) is kept once for each run of neighbours
that have it in common: a sentence, mostly. Arrays are named by what they hold; the
axis that they run along is one of

    long      long tokens
    run       runs of long tokens
    global    global tokens
    window    windows
    name      bytes of the names of their records, UTF-8

Links are a file a column: `links_0`, `links_1`, ... What a task adds, its labels and
further inputs, is `label_NAME` and `extra_NAME`; see `window_fields`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from etc_jax.data.window_fields import (
    Field,
    extra_arrays,
    extra_fields,
    label_fields,
    nested,
)
from etc_jax.structure import LINK_DTYPE, Structure
from etc_jax.types import Rows

RAGGED = ("long", "run", "global", "name")  # axes that each window has a part of

# Vectors of a structure: (axis, type in files, type in batches, value of padding).
_STRUCTURE = {
    "long_example_ids": ("run", "int16", "int32", 0),
    "long_segment_ids": ("run", "int16", "int32", 0),
    "exempt_l2g": ("run", "bool", "bool", False),
    "links": ("run", "int16", LINK_DTYPE, -1),
    "global_example_ids": ("global", "int16", "int32", 0),
    "order_ids": ("global", "int16", "int32", 0),
    "exempt_g2l": ("global", "bool", "bool", False),
    "parent": ("global", "int16", "int32", -1),
}
_OPTIONAL = tuple(
    f.name
    for f in dataclasses.fields(Structure)
    if f.default is not dataclasses.MISSING
)
_TYPE_DTYPE = "uint8"
_LABEL, _EXTRA = "label_", "extra_"
# JSON can spell halves of surrogate pairs, and nobody is to stumble over a name.
NAME_CODEC = ("utf-8", "surrogatepass")


class TaskWindow(Protocol):
    """One input of a task; `etc_jax.formats.structured.Window` is such.

    Two more attributes are there where a task needs them. `extra` has what its model
    takes besides, arrays by name or dicts of such, which batches have under the same
    names. `axes`, a dict of `window_fields.Placed`, says of these, and of labels that
    are neither one number nor one a global token, what they run along.

    Attributes:
      record: what it was made of, with an `id`.
      tokens: ids, `[n]` and `[g]`; those of padding are 0.
      types: token types, `[n]` and `[g]`; those of padding are 0.
      structure: vectors; padding has example id 0 and stands at the end.
      labels: arrays `[]`, or `[g]` with 0 at padding, or as `axes` says. One along
        the long tokens may reach beyond the last: it may be by word, and words may
        have no token.
    """

    record: Any
    tokens: Rows
    types: Rows
    structure: Structure
    labels: Mapping[str, np.ndarray]


class ArrayKind(NamedTuple):
    """What an array in a file is.

    Attributes:
      axis: what it runs along.
      dtype: name of its type.
      width: how many of its numbers belong to one place of the axis.
    """

    axis: str
    dtype: str
    width: int = 1


@dataclasses.dataclass(frozen=True)
class WindowSchema:
    """What the windows of a cache have in common.

    Attributes:
      optional: the optional vectors of `Structure` that are there.
      links: columns of `Structure.links`.
      labels: by name.
      extra: further inputs, by the names of `window_fields.extra_arrays`.
    """

    optional: tuple[str, ...]
    links: int
    labels: Mapping[str, Field]
    extra: Mapping[str, Field]

    @classmethod
    def of(cls, window: TaskWindow) -> WindowSchema:
        """That of a window.

        Raises:
          ValueError: if a label or a further input is not where it should be.
        """
        structure = window.structure
        given = (f for f in _OPTIONAL if getattr(structure, f) is not None)
        links = structure.links.shape[-1]
        return cls(tuple(given), links, label_fields(window), extra_fields(window))

    def arrays(self, id_dtype: str) -> dict[str, ArrayKind]:
        """What each array is, by name, without the offsets."""
        found = {"long_ids": ("long", id_dtype), "global_ids": ("global", id_dtype)}
        found |= {"run_lengths": ("run", "int32"), "names": ("name", "uint8")}
        found |= {"long_types": ("run", _TYPE_DTYPE)}
        found |= {"global_types": ("global", _TYPE_DTYPE)}
        found |= {name: _STRUCTURE[field][:2] for name, field, _ in self.vectors()}
        found |= {k: (f.axis, f.dtype, f.width) for k, f in self.fields().items()}
        return {name: ArrayKind(*kind) for name, kind in found.items()}

    def fields(self) -> dict[str, Field]:
        """Labels and further inputs, by the names of their arrays."""
        labels = {f"{_LABEL}{name}": field for name, field in self.labels.items()}
        return labels | {f"{_EXTRA}{k}": field for k, field in self.extra.items()}

    def vectors(self) -> Iterator[tuple[str, str, int | None]]:
        """(array, field of `Structure`, column of `links`) of each vector there is."""
        for field in _STRUCTURE:
            if field == "links":
                yield from ((f"links_{c}", field, c) for c in range(self.links))
            elif field not in _OPTIONAL or field in self.optional:
                yield field, field, None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        labels = {k: field.to_json() for k, field in self.labels.items()}
        extra = {k: field.to_json() for k, field in self.extra.items()}
        saved = {"optional": list(self.optional), "links": self.links}
        # Without further inputs a header is as it was before there were any.
        return {**saved, "labels": labels, **({"extra": extra} if extra else {})}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> WindowSchema:
        """What `to_json` gave."""
        labels, extra = (
            {k: Field.from_json(x) for k, x in sorted(saved.get(part, {}).items())}
            for part in ("labels", "extra")
        )
        return cls(tuple(saved["optional"]), saved["links"], labels, extra)


# --- to arrays ------------------------------------------------------------------------


def flatten(
    windows: Sequence[TaskWindow], schema: WindowSchema, vocab_size: int
) -> dict[str, np.ndarray]:
    """The arrays of some windows.

    Args:
      windows: in order.
      schema: of all of them.
      vocab_size: number of ids.

    Returns:
      The arrays of `schema.arrays`, and for each ragged axis `AXIS_counts`: int64
      `[windows]`, how much of it each window has.

    Raises:
      ValueError: naming the record and what of it cannot be kept.
    """
    id_dtype = "uint16" if vocab_size <= 2**16 else "uint32"
    kinds = schema.arrays(id_dtype)
    kinds |= {f"{axis}_counts": ArrayKind("window", "int64") for axis in RAGGED}
    rows: dict[str, list[np.ndarray]] = {name: [] for name in kinds}
    for window in windows:
        try:
            found = _flat(window, schema, vocab_size)
            for name, values in found.items():
                rows[name].append(_narrow(name, values, kinds[name].dtype))
        except ValueError as e:
            raise ValueError(f"window of record {window.record.id!r}: {e}") from e
    return {
        name: np.concatenate([np.zeros(0, kind.dtype), *rows[name]])
        for name, kind in kinds.items()
    }


def _flat(window: TaskWindow, schema: WindowSchema, vocab_size: int):
    """The arrays of one window, of any type."""
    own = WindowSchema.of(window)
    if own != schema:
        raise ValueError(f"it has {own}, but the windows before it {schema}")
    structure = window.structure
    values = {f"{_LABEL}{name}": x for name, x in window.labels.items()}
    values |= {f"{_EXTRA}{name}": x for name, x in extra_arrays(window).items()}
    n = _real(structure.long_example_ids)
    n = max([n, *_label_lengths(values, schema)])
    g = _real(structure.global_example_ids)
    found = {
        "long_ids": _cut("long_ids", window.tokens.long, n, 0),
        "global_ids": _cut("global_ids", window.tokens.global_, g, 0),
        "long_types": _cut("long_types", window.types.long, n, 0),
        "global_types": _cut("global_types", window.types.global_, g, 0),
        "names": np.frombuffer(window.record.id.encode(*NAME_CODEC), np.uint8),
    }
    _check_ids(found, vocab_size)
    for name, field, column in schema.vectors():
        vector = getattr(structure, field)
        vector = vector if column is None else vector[:, column]
        axis, _, _, padding = _STRUCTURE[field]
        found[name] = _cut(name, vector, n if axis == "run" else g, padding)
    for name, field in schema.fields().items():
        value = values[name]
        if field.axis != "window":
            length = n if field.axis == "long" else g
            value = _cut(name, value, length, field.padding)
        found[name] = np.reshape(value, -1)
    _join_runs(found, schema, n)
    counts = {"long": n, "run": len(found["run_lengths"]), "global": g}
    counts["name"] = len(found["names"])
    return found | {f"{axis}_counts": np.array([x]) for axis, x in counts.items()}


def _real(example_ids: np.ndarray) -> int:
    """One past the last token that is no padding."""
    real = np.flatnonzero(example_ids)
    return int(real[-1]) + 1 if len(real) else 0


def _label_lengths(
    values: Mapping[str, np.ndarray], schema: WindowSchema
) -> Iterator[int]:
    """For each label along the long tokens, one past the last that is no padding."""
    for name, field in schema.labels.items():
        if field.axis == "long":
            there = np.asarray(values[f"{_LABEL}{name}"]) != field.padding
            yield _real(there.any(axis=tuple(range(1, there.ndim))))


def _cut(name: str, values: np.ndarray, length: int, padding) -> np.ndarray:
    values = np.asarray(values)
    if np.any(values[length:] != padding):
        wrong = values[length:][values[length:] != padding][0]
        raise ValueError(f"{name} has {wrong} in the padding, expected {padding}")
    return values[:length]


def _check_ids(found: Mapping[str, np.ndarray], vocab_size: int) -> None:
    for name in ("long_ids", "global_ids"):
        ids = found[name]
        if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
            raise ValueError(
                f"{name} reach from {ids.min()} to {ids.max()}, but the vocabulary has "
                f"ids 0 to {vocab_size - 1}"
            )


def _join_runs(found: dict[str, np.ndarray], schema: WindowSchema, n: int) -> None:
    """Leaves one value a run, in place of one a long token, and adds `run_lengths`."""
    names = [k for k, kind in schema.arrays("uint16").items() if kind.axis == "run"]
    names.remove("run_lengths")
    differs = np.zeros(n, bool)
    differs[:1] = True
    for name in names:
        differs[1:] |= found[name][1:] != found[name][:-1]
    starts = np.flatnonzero(differs)
    for name in names:
        found[name] = found[name][starts]
    found["run_lengths"] = np.diff(starts, append=n)


def _narrow(name: str, values: np.ndarray, dtype: str) -> np.ndarray:
    narrow = values.astype(dtype)
    if np.any(narrow != values):
        wrong = values[narrow != values][0]
        raise ValueError(f"{name} has {wrong}, which does not fit into {dtype}")
    return narrow


# --- and back -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EmptyBatch:
    """Rows of padding, to be filled with windows.

    Attributes:
      tokens, types: int32 `[b, n]` and `[b, g]`.
      structure: of the rows.
      fields: labels and further inputs, by the names of their arrays.
    """

    tokens: Rows
    types: Rows
    structure: Structure
    fields: dict[str, np.ndarray]

    @classmethod
    def of(cls, schema: WindowSchema, b: int, n: int, g: int) -> EmptyBatch:
        """Rows for windows of a schema."""
        lengths = {"run": n, "global": g}
        fields = {}
        for _, field, column in schema.vectors():
            axis, _, dtype, padding = _STRUCTURE[field]
            shape = (b, lengths[axis]) + (() if column is None else (schema.links,))
            fields[field] = np.full(shape, padding, dtype)
        # Links without a column have no vector, but are not optional.
        fields.setdefault("links", np.zeros((b, n, 0), LINK_DTYPE))
        return cls(
            tokens=Rows(np.zeros((b, n), np.int32), np.zeros((b, g), np.int32)),
            types=Rows(np.zeros((b, n), np.int32), np.zeros((b, g), np.int32)),
            structure=Structure(**fields),
            fields={
                name: field.empty(b, {"long": n, "global": g})
                for name, field in schema.fields().items()
            },
        )

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """By name."""
        return _without(_LABEL, self.fields)

    @property
    def extra(self) -> dict[str, Any]:
        """Further inputs by name, in dicts as windows have them."""
        return nested(_without(_EXTRA, self.fields))

    def fill(self, row: int, schema: WindowSchema, found: Mapping[str, Any]) -> None:
        """Puts a window into a row.

        Args:
          row: of the batch.
          schema: of the window.
          found: its part of each array of `schema.arrays`.
        """
        lengths, g = found["run_lengths"], len(found["global_ids"])
        n = len(found["long_ids"])
        self.tokens.long[row, :n] = found["long_ids"]
        self.tokens.global_[row, :g] = found["global_ids"]
        self.types.long[row, :n] = np.repeat(found["long_types"], lengths)
        self.types.global_[row, :g] = found["global_types"]
        for name, field, column in schema.vectors():
            into = getattr(self.structure, field)[row]
            into = into if column is None else into[:, column]
            if _STRUCTURE[field][0] == "run":
                into[:n] = np.repeat(found[name], lengths)
            else:
                into[:g] = found[name]
        for name, field in schema.fields().items():
            field.fill(self.fields[name], row, found[name])


def _without(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of a prefix, which is left out of their names."""
    return {
        k.removeprefix(prefix): x for k, x in arrays.items() if k.startswith(prefix)
    }
