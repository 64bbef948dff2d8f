"""Reads any section: from nested mappings to frozen dataclasses, all errors at once.

A section's field may be an int, float, str, bool, `Literal`, `X | None`, a tuple of
these, or another dataclass. JSON's lists are read as tuples and its whole numbers as
floats; nothing else is converted.
"""

import dataclasses
import functools
import inspect
import math
import numbers
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from ml_collections import config_dict

from etc_jax.base.rules import Problem, choice
from etc_jax.base.suggestions import suggestion

# "  NAME, NAME: text", with lines that go on.
_ENTRY = re.compile(r"^  (\w+(?:, \w+)*): (.*(?:\n {4}.*)*)", re.MULTILINE)


class _WrongType(Exception):
    """Carries what was expected instead."""


# Of a class whose annotations are text, each look is an evaluation of all.
_hints = functools.cache(typing.get_type_hints)


def field_names(cls: type) -> list[str]:
    """The fields of a section."""
    return [field.name for field in dataclasses.fields(cls)]


def default_dict(cls: type) -> dict[str, Any]:
    """A dataclass's defaults as nested dicts for a `ConfigDict`.

    A field whose default is None, or that has none, becomes a typed placeholder, so
    that it can be given on the command line.
    """
    hints = _hints(cls)
    return {f.name: _default(f, hints[f.name]) for f in dataclasses.fields(cls)}


def default_of(field: dataclasses.Field) -> Any:
    """A field's default, `dataclasses.MISSING` if it has none; sections as dicts."""
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value


def _default(field: dataclasses.Field, hint: Any) -> Any:
    value = default_of(field)
    if value is None or value is dataclasses.MISSING:
        return config_dict.placeholder(_plain_type(hint))
    return value


def _plain_type(hint: Any) -> type:
    options = [a for a in _union_members(hint) if a is not type(None)]
    origin = typing.get_origin(options[0])
    if origin is Literal:
        return type(typing.get_args(options[0])[0])
    return origin or options[0]


def _union_members(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def hints_of(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """{field: type}, as the values of a section have it.

    Where the dataclass of a field goes by a name beside it, the class method
    `sections_by_name` says which one it is: values -> {field: dataclass}.
    """
    by_name = getattr(cls, "sections_by_name", lambda values: {})
    return _hints(cls) | by_name(values)


def texts_of(cls: type) -> dict[str, str]:
    """{field: what the docstrings of a class and its bases say of it}, without dots."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for names, text in _ENTRY.findall(inspect.cleandoc(base.__doc__ or "")):
            text = " ".join(text.split()).rstrip(".")
            texts |= dict.fromkeys(names.split(", "), text)
    return texts


def build(cls: type, values: Any, path: str, problems: list[Problem]) -> Any:
    """An instance of a section from a mapping; errors are appended to `problems`.

    A field in error keeps its default, so that the others can still be checked.

    Returns:
      The instance, or None where a required field is missing or the class refuses.
    """
    if not isinstance(values, Mapping):
        problems.append((path, f"is {values!r}; expected a section with fields"))
        return None
    hints = hints_of(cls, values)
    names = [f.name for f in dataclasses.fields(cls) if f.init]
    bad: set[str] = set()
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        where = f"{path}.{name}"
        if name not in names:
            problems.append((where, f"unknown key; {suggestion(name, names)}"))
            continue
        before = len(problems)
        try:
            arguments[name] = _convert(value, hints[name], where, problems)
        except _WrongType as error:
            got = f"{value!r} ({type(value).__name__})"
            problems.append((where, f"is {got}; expected {error}"))
        if len(problems) > before:
            bad.add(name)
            arguments.pop(name, None)
    return _construct(cls, arguments, path, bad, problems)


def _construct(
    cls: type, arguments: dict, path: str, bad: set[str], problems: list[Problem]
) -> Any:
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.init
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in required if name not in arguments]
    problems.extend(
        (f"{path}.{name}", "is required, but was not given")
        for name in missing
        if name not in bad
    )
    if missing:
        return None
    try:
        section = cls(**arguments)
    except ValueError as error:  # the class checks itself when it is made
        problems.append((path, str(error)))
        return None
    field_problems = section.problems() if hasattr(section, "problems") else ()
    problems.extend((f"{path}.{f}", m) for f, m in field_problems if f not in bad)
    return section


def _convert(value: Any, hint: Any, path: str, problems: list[Problem]) -> Any:
    if hint is Any:
        return value
    members = _union_members(hint)
    if len(members) > 1:
        if value is None and type(None) in members:
            return None
        return _convert_union(value, members, path, problems)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, hint):
            return value
        return build(hint, value, path, problems)
    if typing.get_origin(hint) is Literal:
        return _convert_literal(value, typing.get_args(hint))
    if typing.get_origin(hint) is tuple or hint is tuple:
        return _convert_tuple(value, typing.get_args(hint), path, problems)
    return _convert_scalar(value, hint)


def _convert_union(value, members, path, problems):
    expected = []
    for member in members:
        if member is type(None):
            expected.append("None")
            continue
        try:
            return _convert(value, member, path, problems)
        except _WrongType as error:
            expected.append(str(error))
    raise _WrongType(" or ".join(expected))


def _convert_literal(value, choices):
    rule = choice(choices)
    if not rule.allows(value):
        raise _WrongType(rule.expected_of(value))
    return value


def _convert_tuple(value, items, path, problems):
    if not isinstance(value, tuple | list):
        raise _WrongType("a tuple")
    if not items:
        return tuple(value)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(value)
    if len(items) != len(value):
        raise _WrongType(f"a tuple of {len(items)} values")
    return tuple(
        _convert(v, hint, f"{path}[{i}]", problems)
        for i, (v, hint) in enumerate(zip(value, items, strict=True))
    )


def _convert_scalar(value, hint):
    flag = isinstance(value, bool)
    if hint is int and isinstance(value, numbers.Integral) and not flag:
        return int(value)
    if hint is float and isinstance(value, numbers.Real) and not flag:
        if not math.isfinite(value):
            raise _WrongType("a finite number")
        return float(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    if hint not in (int, float, bool, str):
        raise TypeError(f"config fields of type {hint!r} are not supported")
    names = {int: "an int", float: "a float", bool: "True or False", str: "a string"}
    raise _WrongType(names[hint])
