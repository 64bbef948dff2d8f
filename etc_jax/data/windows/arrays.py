"""Windows of a task as flat arrays without padding, and back.

The arrays of a window are cut at the padding. Those that mostly repeat (types, example
ids, links, ...) are kept once for each run of neighbours that have all of them in
common: a sentence, mostly. In files there are

    NAME               the array of that name in batches, of all windows, in order
    AXIS_run_lengths   positions of each run along an axis
    names              bytes of the names of the records, UTF-8
    AXIS_offsets       int64 [windows + 1], where each window's part of an axis begins;
                       AXIS_run and "name" are axes in this
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from etc_jax.data.schema import ID_DTYPE, LABELS, SEPARATOR, Schema, arrays_of
from etc_jax.data.windows.window import Window

NAMES, NAME_AXIS = "names", "name"
# JSON can spell halves of surrogate pairs, and nobody is to stumble over a name.
NAME_CODEC = ("utf-8", "surrogatepass")


class ArrayKind(NamedTuple):
    """What an array in a file is.

    Attributes:
      axis: what it runs along; None: windows.
      dtype: name of its type.
      width: how many of its numbers belong to one position of the axis.
    """

    axis: str | None
    dtype: str
    width: int = 1


def array_kinds(schema: Schema, id_dtype: str) -> dict[str, ArrayKind]:
    """What each array is, by name, without the offsets."""
    kinds = {NAMES: ArrayKind(NAME_AXIS, "uint8")}
    for name, field in schema.fields.items():
        axis = field.axis
        if field.by_run:
            axis = run_axis(axis)
            kinds[f"{axis}_lengths"] = ArrayKind(axis, "int32")
        kinds[name] = ArrayKind(axis, field.stored_dtype(id_dtype), field.width)
    return kinds


def ragged_axes(kinds: Mapping[str, ArrayKind]) -> list[str]:
    """The axes that each window has a part of, of any length."""
    return sorted({kind.axis for kind in kinds.values() if kind.axis is not None})


def run_axis(axis: str) -> str:
    """The axis of the runs along another one."""
    return f"{axis}_run"


def offsets_of(axis: str) -> str:
    """The array that says where each window's part of an axis begins."""
    return f"{axis}_offsets"


def counts_of(axis: str) -> str:
    """The array of `flatten` that says how much of an axis each window has."""
    return f"{axis}_counts"


# --- to arrays ------------------------------------------------------------------------


def flatten(
    windows: Sequence[Window], schema: Schema, vocab_size: int
) -> dict[str, np.ndarray]:
    """The arrays of some windows.

    Args:
      windows: in order.
      schema: of all of them.
      vocab_size: number of ids.

    Returns:
      The arrays of `array_kinds`, and for each ragged axis `AXIS_counts`: int64
      `[windows]`, how much of it each window has.

    Raises:
      ValueError: naming the record and what of it cannot be kept.
    """
    # As `Tokenizer.id_dtype`.
    id_dtype = "uint16" if vocab_size <= 2**16 else "uint32"
    kinds = array_kinds(schema, id_dtype)
    dtypes = {name: kind.dtype for name, kind in kinds.items()}
    dtypes |= {counts_of(axis): "int64" for axis in ragged_axes(kinds)}
    rows: dict[str, list[np.ndarray]] = {name: [] for name in dtypes}
    for window in windows:
        try:
            for name, values in _flat(window, schema, vocab_size).items():
                rows[name].append(_narrow(name, values, dtypes[name]))
        except ValueError as e:
            raise ValueError(f"window of record {window.record.id!r}: {e}") from e
    return {
        name: np.concatenate([np.zeros(0, dtype), *rows[name]])
        for name, dtype in dtypes.items()
    }


def _flat(window: Window, schema: Schema, vocab_size: int) -> dict[str, np.ndarray]:
    """The arrays of one window, of any type."""
    own_schema = window.schema.of(window)
    if own_schema != schema:
        raise ValueError(
            f"it has {own_schema.fields}, but the windows before it {schema.fields}"
        )
    arrays = arrays_of(window)
    counts = {axis: _used(arrays, schema, axis) for axis in schema.marks}
    flat = {}
    for name, field in schema.fields.items():
        flat[name] = np.asarray(arrays[name])
        if field.axis is not None:
            flat[name] = _cut(name, flat[name], counts[field.axis], field.padding)
        if field.stored == ID_DTYPE:
            _check_ids(name, flat[name], vocab_size)
    for axis in {field.axis for field in schema.fields.values() if field.by_run}:
        lengths = _join_runs(flat, schema, axis, counts[axis])
        flat[f"{run_axis(axis)}_lengths"] = lengths
        counts[run_axis(axis)] = len(lengths)
    flat[NAMES] = np.frombuffer(window.record.id.encode(*NAME_CODEC), np.uint8)
    counts[NAME_AXIS] = len(flat[NAMES])
    flat |= {counts_of(axis): np.array([count]) for axis, count in counts.items()}
    return {name: values.reshape(-1) for name, values in flat.items()}


def _used(arrays: Mapping[str, np.ndarray], schema: Schema, axis: str) -> int:
    """One past the last position of an axis where a window has something."""
    mark = schema.marks[axis]
    ends = [_end(arrays[mark], schema.fields[mark].padding)]
    if axis in schema.text:
        # Labels may be by word, and words may have no token.
        ends += [
            _end(arrays[name], field.padding)
            for name, field in schema.fields.items()
            if field.axis == axis and name.startswith(f"{LABELS}{SEPARATOR}")
        ]
    return max(ends)


def _end(values: np.ndarray, padding: int) -> int:
    is_used = np.asarray(values) != padding
    used = np.flatnonzero(is_used.any(axis=tuple(range(1, is_used.ndim))))
    return int(used[-1]) + 1 if len(used) else 0


def _cut(name: str, values: np.ndarray, length: int, padding: int) -> np.ndarray:
    if np.any(values[length:] != padding):
        wrong = values[length:][values[length:] != padding][0]
        raise ValueError(f"{name} has {wrong} in the padding, expected {padding}")
    return values[:length]


def _check_ids(name: str, ids: np.ndarray, vocab_size: int) -> None:
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(
            f"{name} reach from {ids.min()} to {ids.max()}, but the vocabulary has "
            f"ids 0 to {vocab_size - 1}"
        )


def _join_runs(
    flat: dict[str, np.ndarray], schema: Schema, axis: str, length: int
) -> np.ndarray:
    """Leaves one value a run, in place of one a place; returns the runs' lengths."""
    joined = [k for k, f in schema.fields.items() if f.by_run and f.axis == axis]
    differs = np.zeros(length, bool)
    differs[:1] = True
    for name in joined:
        # A run ends where any of the arrays changes.
        changed = flat[name][1:] != flat[name][:-1]
        differs[1:] |= changed.any(axis=tuple(range(1, changed.ndim)))
    # [runs].
    starts = np.flatnonzero(differs)
    for name in joined:
        flat[name] = flat[name][starts]
    return np.diff(starts, append=length)


def _narrow(name: str, values: np.ndarray, dtype: str) -> np.ndarray:
    # A cast wraps around without a word, so that it is compared.
    narrow = values.astype(dtype)
    if np.any(narrow != values):
        wrong = values[narrow != values][0]
        raise ValueError(f"{name} has {wrong}, which does not fit into {dtype}")
    return narrow


# --- and back -------------------------------------------------------------------------


def fill(
    batch: Mapping[str, np.ndarray],
    row: int,
    schema: Schema,
    parts: Mapping[str, np.ndarray],
) -> None:
    """Puts a window into a row of padding.

    Args:
      batch: `[b, length, ...]` arrays of `schema.empty`.
      row: of the batch.
      schema: of the window.
      parts: the window's part of each array of `array_kinds`, `[values]`.
    """
    for name, field in schema.fields.items():
        values = parts[name]
        if field.axis is None:
            batch[name][row] = values.reshape(field.shape)
        elif field.width:  # without links there is nothing to put anywhere
            # [positions, *shape], one a run where the field has runs.
            array = values.reshape(-1, *field.shape)
            if field.by_run:
                lengths = parts[f"{run_axis(field.axis)}_lengths"]
                array = np.repeat(array, lengths, axis=0)
            batch[name][row, : len(array)] = array
