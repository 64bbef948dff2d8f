"""The table engine: foreign names <-> parameter paths, in both directions.

A table is a sequence of `Row`s. A row's source is the foreign name with fields in it,
`attention_{layer}/{kind:query|key}/kernel`, and its target is a parameter path with
the same fields. `layer` is a number: if the target does not mention it, the layers are
stacked on a leading axis, as a scanned stack keeps them.

Everything here is numpy on the host; the caller puts the result on devices.
"""

# One file: import and export read the same rows, in opposite directions.

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from etc_jax.conversion.renaming import LAYER, original_name

_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_NUMBER = r"\d+"
_WORD = r"[^/.]+"


@dataclasses.dataclass(frozen=True)
class Transform:
    """A change of layout and its exact inverse.

    Attributes:
      forward: foreign array -> ours, for one layer.
      inverse: ours -> foreign.
    """

    forward: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]


IDENTITY = Transform(lambda x: x, lambda x: x)
TRANSPOSE = Transform(lambda x: x.T, lambda x: x.T)


def split_last(parts: int) -> Transform:
    """`[..., parts * size]` <-> `[..., parts, size]`."""
    return Transform(
        lambda x: x.reshape(*x.shape[:-1], parts, -1),
        lambda x: x.reshape(*x.shape[:-2], -1),
    )


def split_first(parts: int) -> Transform:
    """`[parts * size, ...]` <-> `[parts, size, ...]`."""
    return Transform(
        lambda x: x.reshape(parts, -1, *x.shape[1:]),
        lambda x: x.reshape(-1, *x.shape[2:]),
    )


def compose(first: Transform, second: Transform) -> Transform:
    """`first`, then `second`."""
    return Transform(
        lambda x: second.forward(first.forward(x)),
        lambda x: first.inverse(second.inverse(x)),
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of parameter.

    Attributes:
      source: foreign name; `{name:a|b}` matches a regex, `{layer}` a number, and
        `{name}` anything up to the next "/" or ".".
      target: our path, with the same fields as `{name}`; without `{layer}` the layers
        are stacked.
      transform: of one layer's array.
      part: (i, n): part i of n of the foreign array, which joins them along its first
        axis (queries, keys and values in one); each has a row of its own.
    """

    source: str
    target: str
    transform: Transform = IDENTITY
    part: tuple[int, int] = (0, 1)

    def patterns(self) -> dict[str, str]:
        """The regex of each field of `source`."""
        default = {LAYER: _NUMBER}
        return {
            name: regex or default.get(name, _WORD)
            for name, regex in _FIELD.findall(self.source)
        }

    @property
    def stacked(self) -> bool:
        """Whether the layers of the source are one array of the target."""
        return LAYER in self.patterns() and f"{{{LAYER}}}" not in self.target

    def match_source(self, name: str) -> dict[str, str] | None:
        """The fields of a foreign name, or None if this row is not about it."""
        return _match(self.source, self.patterns(), name)

    def match_target(self, path: str) -> dict[str, str] | None:
        """The fields of one of our paths, or None if this row is not about it."""
        return _match(self.target, self.patterns(), path)


def _match(template: str, patterns: Mapping[str, str], text: str):
    regex, at = "", 0
    for field in _FIELD.finditer(template):
        regex += re.escape(template[at : field.start()])
        regex += f"(?P<{field[1]}>{patterns[field[1]]})"
        at = field.end()
    match = re.fullmatch(regex + re.escape(template[at:]), text)
    return None if match is None else match.groupdict()


def _fill(template: str, fields: Mapping[str, Any]) -> str:
    return _FIELD.sub(lambda field: str(fields[field[1]]), template)


class ConversionError(ValueError):
    """Everything that does not fit between a checkpoint and a model, one a line."""

    def __init__(self, problems: Sequence[str]):
        self.problems = tuple(problems)
        super().__init__(
            f"{len(problems)} conversion problems:\n  " + "\n  ".join(problems)
        )


@dataclasses.dataclass(frozen=True)
class Report:
    """What an import did.

    Attributes:
      loaded: our path -> the names of the checkpoint that it was made of.
      missing: our paths that the checkpoint does not have, as the caller allowed.
      unused: foreign names that nothing was made of, as the caller allowed.
    """

    loaded: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    unused: tuple[str, ...]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dict -> `{"a/b/c": leaf}`."""
    out = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            out |= flatten(value, f"{path}/")
        else:
            out[path] = value
    return out


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a/b/c": leaf}` -> nested dict."""
    out: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, last = path.split("/")
        node = out
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return out


def import_params(
    table: Sequence[Row],
    source: Mapping[str, np.ndarray],
    abstract: Mapping[str, Any],
    *,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> tuple[dict[str, Any], Report]:
    """Makes parameters of a model from a foreign checkpoint.

    Rows whose target the model does not have are left out, so one table serves all
    variants of a family. Several rows may use the same source.

    Args:
      table: the rows.
      source: foreign name -> array; may be lazy.
      abstract: nested dict of leaves with `shape` and `dtype` (`jax.eval_shape`).
      allow_missing: regexes of whole paths that may stay without a source; they are
        not in the result.
      allow_unused: regexes of whole foreign names that may stay unused.

    Returns:
      (nested dict of numpy arrays in the dtypes of `abstract`, report).

    Raises:
      ConversionError: naming everything missing, unused or of a wrong shape.
    """
    wanted = flatten(abstract)
    origins, used = _collect(table, source, wanted)
    problems: list[str] = []
    flat, loaded = {}, {}
    for path, leaf in wanted.items():
        if path not in origins:
            continue
        row, layers = origins[path]
        try:
            flat[path] = _assemble(row, layers, source, leaf)
        except ValueError as error:
            problems.append(f"{path}: {error}")
        loaded[path] = tuple(original_name(source, layers[i]) for i in sorted(layers))
    absent = [path for path in wanted if path not in origins]
    missing = _not_allowed(
        *(absent, allow_missing, problems, "missing"),
        lambda path: _wanted_name(table, path, source),
    )
    left = [name for name in source if name not in used]
    unused = _not_allowed(
        *(left, allow_unused, problems, "unused"),
        lambda name: original_name(source, name),
    )
    if problems:
        raise ConversionError(problems)
    return unflatten(flat), Report(loaded, missing, unused)


def _collect(table, source, wanted):
    """({path: (row, {layer or -1: foreign name})}, foreign names used)."""
    origins: dict[str, tuple[Row, dict[int, str]]] = {}
    used = set()
    for name in source:
        for row in table:
            fields = row.match_source(name)
            if fields is None:
                continue
            path = _fill(row.target, fields)
            if path not in wanted:
                continue
            layer = int(fields[LAYER]) if row.stacked else -1
            layers = origins.setdefault(path, (row, {}))[1]
            if layer in layers:
                both = (original_name(source, x) for x in (layers[layer], name))
                raise ConversionError([f"{path}: both {' and '.join(both)} claim it"])
            layers[layer] = name
            used.add(name)
    return origins, used


_ADVICE = {
    "missing": "the checkpoint has no such array: it is not whole, or its config is "
    "that of another model",
    "unused": "the model has no parameter for it: the config is that of another model, "
    "or the checkpoint has a part that models here do not have",
}


def _not_allowed(names, allowed, problems: list[str], what: str, shown):
    """The names; a problem is added for each that is not allowed."""
    for name in names:
        if not any(re.fullmatch(pattern, name) for pattern in allowed):
            problems.append(f"{shown(name)}: {what}; {_ADVICE[what]}")
    return tuple(names)


def _wanted_name(table: Sequence[Row], path: str, source) -> str:
    """What a checkpoint calls what a path is made of, the first layer of several."""
    for row in table:
        if (fields := row.match_target(path)) is not None:
            name = _fill(row.source, {LAYER: 0, **fields})
            return f"{original_name(source, name)} (for {path})"
    return path


def _assemble(row: Row, layers: Mapping[int, str], source, leaf) -> np.ndarray:
    """The array of one path, checked against its abstract leaf."""
    names = {i: original_name(source, name) for i, name in layers.items()}
    if row.stacked:
        _check_layers(row, layers, source, leaf.shape[0])
    shape = tuple(leaf.shape)[row.stacked :]
    parts = [
        _convert(row, names[i], np.asarray(source[layers[i]]), shape)
        for i in sorted(layers)
    ]
    value = np.stack(parts) if row.stacked else parts[0]
    value = _cast(value, leaf.dtype, names[min(layers)])
    _check_finite(value, row, names)
    return value


def _check_layers(row: Row, layers: Mapping[int, str], source, count: int) -> None:
    some = next(iter(layers.values()))
    fields = row.match_source(some)

    def named(i: int) -> str:
        name = layers.get(i) or _fill(row.source, {**fields, LAYER: i})
        return original_name(source, name)

    gone = [named(i) for i in range(count) if i not in layers]
    extra = [named(i) for i in sorted(layers) if i >= count]
    if gone or extra:
        lacks = f"; the checkpoint lacks {', '.join(gone)}" if gone else ""
        beyond = f"; beyond them are {', '.join(extra)}" if extra else ""
        raise ValueError(f"the model has {count} layers{lacks}{beyond}")


def _check_finite(value: np.ndarray, row: Row, names: Mapping[int, str]) -> None:
    if not np.issubdtype(value.dtype, np.floating) or np.isfinite(value).all():
        return
    parts = value if row.stacked else [value]
    for i, part in zip(sorted(names), parts, strict=True):
        if bad := int(np.sum(~np.isfinite(part))):
            raise ValueError(
                f"{names[i]} has {bad} of {part.size} values that are NaN or infinite "
                f"as {value.dtype}; the training that made it diverged, or the file is "
                "damaged: fetch it again, or take an earlier checkpoint"
            )


def _convert(row: Row, name: str, value: np.ndarray, shape) -> np.ndarray:
    try:
        i, count = row.part
        if count > 1:
            value = np.split(value, count)[i]
        converted = row.transform.forward(value)
    except ValueError as error:
        raise ValueError(
            f"{name} of shape {value.shape} cannot be laid out: {error}"
        ) from error
    if converted.shape != shape:
        raise ValueError(
            f"{name} of shape {value.shape} gives {converted.shape}, expected {shape}"
        )
    return converted


def _cast(value: np.ndarray, dtype, name: str) -> np.ndarray:
    if jax.dtypes.issubdtype(value.dtype, np.floating) != jax.dtypes.issubdtype(
        dtype, np.floating
    ):
        raise ValueError(f"dtype {value.dtype} of {name}, expected {dtype}")
    return np.ascontiguousarray(value.astype(dtype, copy=False))


def export_params(table: Sequence[Row], params: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `import_params`: foreign name -> numpy array.

    Raises:
      ConversionError: naming every parameter that no row is about, every foreign name
        that two parameters with different values claim, and every one that lacks parts.
    """
    # Foreign name -> the parts of its array, in their order; None until they come.
    arrays: dict[str, list[np.ndarray | None]] = {}
    problems: list[str] = []
    for path, value in flatten(params).items():
        rows = [(r, f) for r in table if (f := r.match_target(path)) is not None]
        if not rows:
            problems.append(f"{path}: no row of the table exports it")
            continue
        row, fields = rows[0]
        i, count = row.part
        for name, array in _exported(row, fields, np.asarray(value)):
            parts = arrays.setdefault(name, [None] * count)
            if parts[i] is not None and not np.array_equal(parts[i], array):
                problems.append(f"{name}: {path} and another parameter differ on it")
            parts[i] = array
    for name, parts in arrays.items():
        if absent := [i for i, part in enumerate(parts) if part is None]:
            problems.append(f"{name}: no parameter is part {absent} of {len(parts)}")
    if problems:
        raise ConversionError(problems)
    return {
        name: np.concatenate(parts) if len(parts) > 1 else parts[0]
        for name, parts in arrays.items()
    }


def _exported(row: Row, fields, value) -> Iterator[tuple[str, np.ndarray]]:
    if not row.stacked:
        yield _fill(row.source, fields), row.transform.inverse(value)
        return
    for i, part in enumerate(value):
        yield _fill(row.source, {**fields, LAYER: i}), row.transform.inverse(part)
