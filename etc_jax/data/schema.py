"""What a batch holds: named arrays over named axes.

A *schema* gives the axis of each array, its type and its padding. A format declares one
(`etc_jax.formats`), an objective that reads text another; caches of windows add their
labels. What is done with arrays of any schema is written here once: rows of padding,
rows filled and stacked, batches checked, tokens of a step counted.

An array has the name that it has in the batch; one in a dict, or in an object such as
`Structure`, has its path: "labels.answer_type", "structure.links".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base import registry

# Between the names on the way to an array.
SEPARATOR = "."
LABELS = "labels"
WEIGHTS = "weights"
# A type in files: that of the ids of the vocabulary, as small as its size allows.
ID_DTYPE = "id"
_REMEDIES = {
    "vocab_size": "tokenizer and config differ; bytes take 256 rows; a token that the "
    "model was trained without, as BART's <mask>, gets a row by etc-jax grow",
    "num_types": "the inputs are those of another family of models",
}


class Placed(NamedTuple):
    """Where an array of a window lies.

    Attributes:
      axis: that its first dimension runs along; None: it has one shape in all windows.
      padding: its value where a window has nothing, and in rows without a window.
    """

    axis: str | None = None
    padding: int = 0


class Field(NamedTuple):
    """What an array of each row is.

    Attributes:
      axis: see `Placed`.
      dtype: name of its type in batches.
      shape: of what is there at each position of the axis.
      padding: see `Placed`.
      stored: name of its type in files; None: the same. `ID_DTYPE` is one of ids.
      by_run: in files it has a value for each run of neighbours along the axis for whom
        all such arrays are equal, mostly a sentence.
    """

    axis: str | None = None
    dtype: str = "int32"
    shape: tuple[int, ...] = ()
    padding: int = 0
    stored: str | None = None
    by_run: bool = False

    @property
    def width(self) -> int:
        """Numbers at each position."""
        return math.prod(self.shape)

    def stored_dtype(self, id_dtype: str) -> str:
        """The type in files, for ids of a type."""
        return id_dtype if self.stored == ID_DTYPE else self.stored or self.dtype

    def empty(self, rows: int, lengths: Mapping[str, int]) -> np.ndarray:
        """Padding for a batch: `[rows, length, *shape]`, or `[rows, *shape]`.

        Args:
          rows: of the batch.
          lengths: of the axes.
        """
        length = () if self.axis is None else (lengths[self.axis],)
        return np.full((rows, *length, *self.shape), self.padding, self.dtype)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without what is as by default."""
        usual = Field._field_defaults
        changed = {k: x for k, x in self._asdict().items() if x != usual[k]}
        return {"axis": self.axis, "dtype": self.dtype, **changed}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Field:
        """What `to_json` gave.

        Raises:
          TypeError, ValueError: if it is none.
        """
        field = cls(**saved)
        np.dtype(field.dtype), np.dtype(field.stored_dtype("uint16"))
        shape = tuple(int(x) for x in field.shape)
        return field._replace(shape=shape, padding=int(field.padding))


@dataclasses.dataclass(frozen=True)
class Schema:
    """The arrays of a batch, with a first axis for its rows.

    Attributes:
      name: of the format, or of the objective that reads such batches.
      fields: by name.
      lengths: for each axis, the name of its length in the section `data` of a config.
      text: the axes whose positions count as tokens of a step.
      marks: for each axis, the array that is padding where a row has nothing.
      tables: of arrays of ids, the field of the model's config that has the number of
        rows of their table.
      positions: of arrays of positions, the axis they are on; -1 is none where that is
        the padding.
      optional: what a batch may be without.
      groups: by name, what the arrays below it are put into, other than a dict.
    """

    name: str
    fields: Mapping[str, Field]
    lengths: Mapping[str, str]
    text: tuple[str, ...]
    marks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    positions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    groups: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)

    def lengths_of(self, data: Any) -> dict[str, int]:
        """The length of each axis by the section `data` of a config."""
        return {axis: getattr(data, name) for axis, name in self.lengths.items()}

    def tokens_per_row(self, data: Any) -> int:
        """Tokens of a row, padding included, by the section `data` of a config."""
        lengths = self.lengths_of(data)
        return sum(lengths[axis] for axis in self.text)

    def empty(self, rows: int, lengths: Mapping[str, int]) -> dict[str, np.ndarray]:
        """Rows of padding, `[rows, length, *shape]` by name; see `Field.empty`."""
        return {name: field.empty(rows, lengths) for name, field in self.fields.items()}

    def extended(
        self, fields: Mapping[str, Field], positions: Mapping[str, str] | None = None
    ) -> Schema:
        """The same with further inputs, and of those that are positions, their axis."""
        return dataclasses.replace(
            self,
            fields={**self.fields, **fields},
            positions={**self.positions, **(positions or {})},
        )

    def smallest(self, **lengths: int) -> dict[str, Any]:
        """A batch of one row, for shapes of parameters; a length is 1 by default."""
        arrays = self.empty(1, {**dict.fromkeys(self.lengths, 1), **lengths})
        return self.batch({k: x for k, x in arrays.items() if k not in self.optional})

    def batch(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The batch of arrays by name: those with a path go into dicts and groups."""
        batch: dict[str, Any] = {}
        for path, array in arrays.items():
            *above, name = path.split(SEPARATOR)
            group_of = batch
            for group in above:
                group_of = group_of.setdefault(group, {})
            group_of[name] = array
        for group, make in self.groups.items():
            batch[group] = make(**batch[group])
        return batch

    # --- of windows -------------------------------------------------------------------

    def of(self, window: Any) -> Schema:
        """The schema of a window, with its labels and further inputs; see `Window`.

        Raises:
          ValueError: if an array is not where it is said to be, or nothing is said of
            it, or a further input is called as something that every batch has.
        """
        lengths = self.window_lengths(window)
        fields = {
            name: self.fields[name]._replace(shape=np.shape(value)[1:])
            for name, value in window.arrays().items()
        }
        for name, value in window.labels.items():
            fields[_label(name)] = _field_of_label(name, value, window, lengths)
        for name, value in flat(window.extra).items():
            fields[name] = self._field_of_extra(name, value, window, lengths)
        return dataclasses.replace(self, fields=fields)

    def window_lengths(self, window: Any) -> dict[str, int]:
        """The length of each axis in a window, padding included.

        Raises:
          ValueError: if its arrays do not agree.
        """
        lengths: dict[str, tuple[str, int]] = {}
        for name, value in window.arrays().items():
            axis, length = self.fields[name].axis, len(value)
            other, expected = lengths.setdefault(axis, (name, length))
            if length != expected:
                raise ValueError(
                    f"{name} has {length} positions, but {other}, which runs along the "
                    f"same axis, {expected}"
                )
        return {axis: length for axis, (_, length) in lengths.items()}

    def _field_of_extra(self, name, value, window, lengths) -> Field:
        group = name.partition(SEPARATOR)[0]
        taken = {path.partition(SEPARATOR)[0] for path in self.fields}
        is_taken = group in (*taken, LABELS, WEIGHTS)
        if is_taken or group not in window.axes:
            raise ValueError(
                f"extra input {group!r} "
                + ("is in every batch" if is_taken else "has no axis")
                + "; choose another name, or say in the window's axes where it lies"
            )
        return _placed(f"extra input {name!r}", value, window.axes[group], lengths)

    # --- of batches -------------------------------------------------------------------

    def problems(self, batch: Mapping[str, Any], model: Any) -> list[str]:
        """What is wrong with a batch of numpy arrays, one message each.

        On a device all of it would be silent: an id beyond a table reads its last row.

        Args:
          batch: of this schema.
          model: config with the numbers of rows of the tables.
        """
        needed = (name for name in self.fields if name not in self.optional)
        if lacking := [name for name in needed if at(batch, name) is None]:
            names = ", ".join(sorted(batch))
            return [f"the batch lacks {', '.join(lacking)}; it has {names}"]
        messages = list(self._wrong_shapes(batch))
        for name, field in self.tables.items():
            messages += self._wrong_ids(batch, name, model, field)
        for name, axis in self.positions.items():
            if at(batch, name) is not None:
                messages += self._wrong_positions(batch, name, axis)
        return messages

    def length(self, batch: Mapping[str, Any], axis: str) -> int:
        """Places along an axis of a batch."""
        names = (name for name, field in self.fields.items() if field.axis == axis)
        return at(batch, next(names)).shape[1]

    def _wrong_shapes(self, batch: Mapping[str, Any]) -> Iterator[str]:
        lengths: dict[str | None, tuple[str, int]] = {}
        for name, field in self.fields.items():
            if (array := at(batch, name)) is None:
                continue
            # None stands for the rows, which all arrays have.
            axes = (None,) if field.axis is None else (None, field.axis)
            for axis, length in zip(axes, array.shape, strict=False):
                other, expected = lengths.setdefault(axis, (name, length))
                if length != expected:
                    along = "rows" if axis is None else f"positions along {axis}"
                    yield f"{name} has {length} {along}, but {other} has {expected}"

    def _wrong_ids(self, batch, name: str, model: Any, field: str) -> Iterator[str]:
        rows = getattr(model, field)
        low, high = int(batch[name].min()), int(batch[name].max())
        if 0 <= low and high < rows:
            return
        along = (k for k, x in self.fields.items() if x.axis == self.fields[name].axis)
        weights = next((k for k in along if k.endswith(WEIGHTS)), None)
        remedy = _REMEDIES[field]
        if low < 0 and weights is not None and name.endswith("targets"):
            remedy = f"what is not to be predicted is any id of weight 0 in {weights}"
        yield (
            f"{name} holds ids from {low} to {high}, but model.{field} is {rows}; "
            f"{remedy}"
        )

    def _wrong_positions(self, batch, name: str, axis: str) -> Iterator[str]:
        # Padding of -1 stands for no position, any other is one.
        least, length = min(self.fields[name].padding, 0), self.length(batch, axis)
        low, high = int(batch[name].min()), int(batch[name].max())
        if low < least or high >= length:
            none = "-1 for none, or " if least else ""
            yield (
                f"{name} holds positions from {low} to {high}, expected {none}0 to "
                f"{length - 1}, as the axis {axis} has {length}"
            )

    # --- in files ---------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        fields = {name: field.to_json() for name, field in self.fields.items()}
        return {"format": self.name, "fields": fields}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Schema:
        """What `to_json` gave of the schema of a format's windows.

        Raises:
          KeyError, TypeError, ValueError: if it is none.
        """
        declared = registry.lookup("format", saved["format"])
        fields = {k: Field.from_json(x) for k, x in saved["fields"].items()}
        for name, field in fields.items():
            if field.axis not in (None, *declared.lengths):
                raise ValueError(f"{name} runs along {field.axis!r}")
        return dataclasses.replace(declared, fields=fields)


def at(batch: Mapping[str, Any], path: str) -> Any:
    """An array of a batch by its name; None if it is not there."""
    node: Any = batch
    for name in path.split(SEPARATOR):
        # Groups are objects such as `Structure`, others dicts.
        get = node.get if isinstance(node, Mapping) else vars(node).get
        if (node := get(name)) is None:
            return None
    return node


def flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The arrays of dicts in dicts, by their paths."""
    arrays: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            arrays |= flat(value, f"{before}{name}{SEPARATOR}")
        else:
            arrays[f"{before}{name}"] = value
    return arrays


def arrays_of(window: Any) -> dict[str, np.ndarray]:
    """All arrays of a window, `[length, ...]` by their names in a batch."""
    labels = {_label(name): value for name, value in window.labels.items()}
    return {**window.arrays(), **labels, **flat(window.extra)}


def stacked(windows: Sequence[Any]) -> dict[str, Any]:
    """What a model takes of some windows: their batch without labels and weights.

    Raises:
      ValueError: if there is no window.
    """
    if not windows:
        raise ValueError("no window to make a batch of; expected at least one")
    inputs = [{**window.arrays(), **flat(window.extra)} for window in windows]
    arrays = {name: np.stack([x[name] for x in inputs]) for name in inputs[0]}
    return windows[0].schema.batch(arrays)


def _label(name: str) -> str:
    return f"{LABELS}{SEPARATOR}{name}"


def _field_of_label(name, value, window, lengths) -> Field:
    # Most labels are one number, or one a global token.
    what, shape = f"label {name!r}", np.shape(value)
    usual = ("global",) if shape else ()
    if name not in window.axes and shape != tuple(lengths.get(x) for x in usual):
        raise ValueError(
            f"{what} has shape {shape}, expected () or one a global token: "
            f"({lengths.get('global')},)"
        )
    placed = window.axes.get(name, Placed(*usual))
    return _placed(what, value, placed, lengths)


def _placed(what: str, value, placed: Placed, lengths: Mapping[str, int]) -> Field:
    shape, dtype = np.shape(value), np.asarray(value).dtype.name
    if placed.axis is None:
        return Field(None, dtype, shape, placed.padding)
    length = lengths[placed.axis]
    if shape[:1] != (length,):
        raise ValueError(
            f"{what} has shape {shape}, expected one for each position of the axis "
            f"{placed.axis}: ({length},)"
        )
    return Field(placed.axis, dtype, shape[1:], placed.padding)
