"""How inputs are made, where a data set leaves a choice: flags, and NAME=VALUE."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from etc_jax.base import strict_json
from etc_jax.base.local_paths import INPUT
from etc_jax.config.fields import texts_of


@dataclasses.dataclass(frozen=True)
class InputOptions:
    """How inputs are made: its fields, if any.

    A subclass describes each field in the lines "NAME: text" of its
    docstring: they are the help of the flags.

    Attributes:
      given_to: the functions of the data set and its forms that take them, as
        `options`: `features`, and others where they shape records too.
    """

    given_to: ClassVar[tuple[str, ...]] = ("features",)

    def completed(self, paths: Sequence[str | os.PathLike]) -> Self:
        """The same with what the files to learn from say, such as names of classes.

        Args:
          paths: of the files.

        Raises:
          ValueError: if they do not say it.
          OSError: if a file cannot be read.
        """
        del paths
        return self

    def task_fields(self) -> dict[str, Any]:
        """The fields of a `Task` that are others with these options, by name."""
        return {}

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """What shapes inputs, by name.

        Args:
          sizes: of an input, by which a default may go.

        Returns:
          The options, and those lengths that do more than to cut off the end.
        """
        del sizes
        return dataclasses.asdict(self)

    def problem(self, objective: Any) -> str | None:
        """Why a model does not take such inputs; None if it does.

        Args:
          objective: the section of that name of the model's config.
        """
        del objective
        return None

    def read_at_once(self, length: int) -> int:
        """Tokens that an encoder reads together, of an input of a length."""
        return length


def add_flags(
    parser: argparse._ActionsContainer, options: Any, section: str = ""
) -> None:
    """Adds the fields of a dataclass, such as the options of a data set, as flags.

    Args:
      parser: of the command line, or a group of it.
      options: the dataclass, with defaults. A field's metadata may have how `given` is
        to "read" the file of a path, and a "metavar".
      section: what stands before the names, such as "sled.".
    """
    hints, texts = typing.get_type_hints(type(options)), texts_of(type(options))
    for field in dataclasses.fields(options):
        hint = _of_value(hints[field.name])
        kinds = typing.get_args(hint) or (hint,)
        text = texts.get(field.name, "")
        if field.default not in ("", (), None):
            text = f"{text} (default: {field.default})".strip()
        flag, text = f"--{section}{field.name}", text.replace("%", "%%")
        if "read" in field.metadata:
            name = field.metadata["metavar"]
            parser.add_argument(flag, type=INPUT, metavar=name, help=text)
            continue
        if typing.get_origin(hint) is typing.Literal:
            parser.add_argument(flag, choices=kinds, help=text)
            continue
        if kinds == (int, int):
            parser.add_argument(flag, type=_range, metavar="LEAST-MOST", help=text)
            continue
        if typing.get_origin(hint) is tuple:
            parser.add_argument(flag, type=_names, metavar="A,B", help=text)
            continue
        kind = next(k for k in kinds if k is not type(None))
        if kind is bool and field.default:
            action = argparse.BooleanOptionalAction
            parser.add_argument(flag, action=action, default=None, help=text)
        elif kind is bool:
            parser.add_argument(flag, action="store_true", default=None, help=text)
        else:
            parser.add_argument(flag, type=kind, help=text)


def _of_value(hint: Any) -> Any:
    """The type of a field that may be None as well, without that."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    kinds = [k for k in typing.get_args(hint) if k is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint


def from_flags(
    args: argparse.Namespace, options: Any, section: str = ""
) -> dict[str, Any]:
    """Those that a command line of `add_flags` has, by name.

    Raises:
      ValueError: if a file that one names cannot be read.
    """
    values = {}
    for field in dataclasses.fields(options):
        flag = f"{section}{field.name}"
        if (value := getattr(args, flag)) is None:
            continue
        if (read := field.metadata.get("read")) is not None:
            try:
                value = read(value)
            except ValueError as error:
                raise ValueError(f"--{flag}: {error}") from error
        values[field.name] = value
    return values


def parsed(options: Any, texts: Sequence[str]) -> Mapping[str, Any]:
    """Options by name, from texts such as "stride=256" and "flat=true".

    Raises:
      ValueError: if a text has another form, or a value is not of the option's type.
    """
    values = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"option {text!r}; expected NAME=VALUE, as stride=256")
        values[name] = _value(options, name, value)
    return values


def _value(options: Any, name: str, text: str) -> Any:
    hint = typing.get_type_hints(type(options)).get(name)
    if hint is None:  # there is none: `Task.with_options` says so
        return text
    [field] = [f for f in dataclasses.fields(options) if f.name == name]
    if (read := field.metadata.get("read")) is not None:
        try:
            return read(text)
        except argparse.ArgumentTypeError as e:
            raise ValueError(f"option {name} {e}") from e
    if typing.get_origin(_of_value(hint)) is typing.Literal:
        hint = _of_value(hint)
    kinds = typing.get_args(hint) or (hint,)
    if typing.get_origin(hint) is typing.Literal:
        # Caches have it as JSON; one may be called "true".
        choice = text if text in kinds else _unquoted(text)
        if choice not in kinds:
            listed = " or ".join(map(str, kinds))
            raise ValueError(f"option {name} is {text!r}; expected {listed}")
        return choice
    if typing.get_origin(hint) is tuple:
        try:
            return _names(text)
        except argparse.ArgumentTypeError as e:
            raise ValueError(f"option {name} {e}") from e
    value = _unquoted(text)
    if float in kinds and type(value) is int:
        return float(value)
    if type(value) not in kinds:
        names = " or ".join({type(None): "null"}.get(k, k.__name__) for k in kinds)
        raise ValueError(f"option {name} is {text!r}; expected {names}")
    return value


def _unquoted(text: str) -> Any:
    """The JSON value of a text, or the text itself if it is no JSON."""
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


def _range(text: str) -> tuple[int, int]:
    """One number, or two: 2, or 2-3.

    Raises:
      argparse.ArgumentTypeError: if it is something else.
    """
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be like 2 or 2-3, got {text!r}")
    return int(match[1]), int(match[2] or match[1])


def _names(text: str) -> tuple[str, ...]:
    """Names joined by commas, or a JSON list of them.

    Raises:
      argparse.ArgumentTypeError: if a list is none of strings.
    """
    if not text.startswith("["):
        return tuple(text.split(","))
    try:
        names = strict_json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
        raise argparse.ArgumentTypeError(
            f"is {text:.60}; expected names joined by commas, or a JSON list of strings"
        )
    return tuple(names)
