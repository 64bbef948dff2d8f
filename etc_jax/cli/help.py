"""What the fields of a config are, for --help_config."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.base.suggestions import suggestion
from etc_jax.config import kinds as config_kinds
from etc_jax.config.fields import default_of, hints_of, texts_of

_WIDTH = 88


class NoFieldError(ValueError):
    """A config has no such field."""

    exit_code = 2


def help_of(values: Mapping[str, Any], path: str) -> str:
    """Type, default, text and choices of a field, or of all fields of a section.

    Args:
      values: a `ConfigDict` or nested mappings, which name model, objective and data.
      path: dotted, such as "optimizer.learning_rate" or "data"; "": all sections.

    Raises:
      NoFieldError: naming the nearest one, if there is no such field.
      config.ConfigError: if model, objective or data are none.
    """
    values = config_lib.used(values)
    sections = config_lib.section_classes(values)
    if not path:
        return "\n\n".join(
            "\n".join(_lines(cls, values.get(name, {}), name))
            for name, cls in sections.items()
        )
    if path == "model.family":
        family = values["model"]["family"]
        return _field(path, str, "of the model", family, dataclasses.MISSING)
    name, *rest = path.split(".")
    if name not in sections:
        raise NoFieldError(f"no section {name!r}; {suggestion(name, sections)}")
    cls, section = sections[name], values.get(name, {})
    for number, name in enumerate(rest, start=1):
        hints = hints_of(cls, section)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if name not in fields:
            raise NoFieldError(f"no field {path!r}; {suggestion(name, fields)}")
        inner = section.get(name, default_of(fields[name]))
        if not dataclasses.is_dataclass(hints[name]):
            if number < len(rest):
                raise NoFieldError(f"no field {path!r}; {name} has no fields")
            text = texts_of(cls).get(name, "")
            return _field(path, hints[name], text, inner, default_of(fields[name]))
        cls, section = hints[name], inner
    return "\n".join(_lines(cls, section, path, with_texts=True))


def _field(path: str, hint: Any, text: str, value: Any, default: Any) -> str:
    lines = [f"{path}: {_named(hint)}"]
    lines += textwrap.wrap(f"{text[:1].upper()}{text[1:]}.", _WIDTH) if text else []
    if names := _choices(path, hint):
        listed = f"One of {', '.join(map(str, names))}"
        if path in config_kinds.NAMES:
            listed += ", or the path of a module that registers another one"
        lines += textwrap.wrap(f"{listed}.", _WIDTH)
    lines.append(f"Default: {_shown(default)}")
    if value != default:
        lines.append(f"In this config: {_shown(value)}")
    return "\n".join(lines)


def _lines(
    cls: type, values: Mapping[str, Any], path: str, *, with_texts: bool = False
) -> Iterator[str]:
    """The fields of a section with their values here."""
    yield f"{path}: {cls.__name__}"
    hints, texts = hints_of(cls, values), texts_of(cls)
    for field in dataclasses.fields(cls):
        value = values.get(field.name, default_of(field))
        if dataclasses.is_dataclass(hints[field.name]):
            inner = f"{path}.{field.name}"
            yield from (f"  {x}" for x in _lines(hints[field.name], value, inner))
            continue
        yield f"  {field.name}: {_named(hints[field.name])} = {_shown(value)}"
        if with_texts and (text := texts.get(field.name)):
            indent = " " * 6
            yield textwrap.fill(
                text, _WIDTH, initial_indent=indent, subsequent_indent=indent
            )


def _named(hint: Any) -> str:
    return inspect.formatannotation(hint)


def _shown(value: Any) -> str:
    return "none, it must be given" if value is dataclasses.MISSING else repr(value)


def _choices(path: str, hint: Any) -> tuple[Any, ...]:
    if path in config_kinds.NAMES:
        choices = (
            name for kind in config_kinds.NAMES[path] for name in registry.names(kind)
        )
        return tuple(sorted(set(choices)))
    members = typing.get_args(hint) or ()
    if typing.get_origin(hint) is Literal:
        return members
    literals = (typing.get_args(x) for x in members if typing.get_origin(x) is Literal)
    return tuple(choice for choices in literals for choice in choices)
