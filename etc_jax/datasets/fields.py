"""What the fields of a record must be, checked in one place.

    fields = Fields(value)
    fields.get("context", list_of(pair(STRING, list_of(STRING)), least=1))
    fields.get("rating", whole(1, 10), None)

A kind is a function (value, name) -> value that raises `BadRecordError`, so that larger
kinds are made of smaller ones. No JSON value, of whatever depth and size, makes a kind
fail in another way.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

from etc_jax.data.input_files import BadRecordError

T = TypeVar("T")
Kind = Callable[[Any, str], T]

_REQUIRED: Any = object()
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong = 3, 60, 60
_SHOWN_CHARS = 60
_SHOWN_FIELDS = 20
# Larger ones fit into no array of int64 or of float32.
_WHOLE = 2**63
_MOST_NUMBER = 3e38


def shown(value: Any) -> str:
    """The type of a JSON value and its first characters."""
    text = value if isinstance(value, str) else _SHORT.repr(value)
    return f"{type(value).__name__} {text[:_SHOWN_CHARS]!r}"


def wrong_type(value: Any, what: str, expected: str) -> BadRecordError:
    """The error for a value of another kind than `expected`."""
    name = f"{what!r} is " if what else ""
    return BadRecordError("wrong type", f"{name}{shown(value)}, expected {expected}")


def _of_type(type_: type, expected: str) -> Kind:
    def check(value: Any, what: str) -> Any:
        # A bool is an int to isinstance.
        if type(value) is not type_:
            raise wrong_type(value, what, expected)
        return value

    return check


STRING = _of_type(str, "a string")
LIST = _of_type(list, "a list")
OBJECT = _of_type(dict, "an object")
FLAG = _of_type(bool, "true or false")


def anything(value: Any, what: str) -> Any:
    """Whatever there is."""
    del what
    return value


def text(value: Any, what: str) -> str:
    """A string that is not blank."""
    if not STRING(value, what).strip():
        raise BadRecordError("empty field", f"{what!r} is blank, expected text")
    return value


def whole(low: int = -_WHOLE, high: int = _WHOLE - 1) -> Kind[int]:
    """A whole number from `low` to `high`."""
    expected = "a whole number"
    if (low, high) != (-_WHOLE, _WHOLE - 1):
        expected += f" from {low} to {high}"

    def check(value: Any, what: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise wrong_type(value, what, expected)
        return value

    return check


WHOLE = whole()


def number(value: Any, what: str) -> float:
    """A finite number."""
    is_number = type(value) in (int, float)
    # NaN, which json reads, is in no range.
    if not is_number or not -_MOST_NUMBER < value < _MOST_NUMBER:
        raise wrong_type(value, what, "a finite number")
    return value


def list_of(kind: Kind[T], *, least: int = 0) -> Kind[tuple[T, ...]]:
    """A list of values of one kind, `least` of them or more, as a tuple."""

    def check(value: Any, what: str) -> tuple[T, ...]:
        if len(LIST(value, what)) < least:
            have = f"a list of {len(value)}" if value else "an empty list"
            raise BadRecordError(
                "empty field", f"{what!r} is {have}, expected {least} or more"
            )
        return tuple(kind(x, f"{what}[{i}]") for i, x in enumerate(value))

    return check


def pair(first: Kind, second: Kind) -> Kind[tuple[Any, Any]]:
    """A list of two values, each of its own kind, as a tuple."""

    def check(value: Any, what: str) -> tuple[Any, Any]:
        if type(value) is not list or len(value) != 2:
            raise wrong_type(value, what, "a list of two")
        return first(value[0], f"{what}[0]"), second(value[1], f"{what}[1]")

    return check


class Fields:
    """The fields of a JSON object."""

    def __init__(self, value: Any, what: str = ""):
        """Takes the object, which messages call `what`.

        Raises:
          BadRecordError: if it is none.
        """
        self._value = OBJECT(value, what)
        self._inside = f"{what}." if what else ""

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def get(self, key: str, kind: Kind[T], default: Any = _REQUIRED) -> T:
        """A field of one kind; `default` where there is none, if one is given.

        Raises:
          BadRecordError: if it is missing, or of another kind.
        """
        if key in self._value:
            return kind(self._value[key], f"{self._inside}{key}")
        if default is not _REQUIRED:
            return default
        names = sorted(self._value)
        have = ", ".join(f"{name:.40}" for name in names[:_SHOWN_FIELDS]) or "none"
        more = ", ..." if len(names) > _SHOWN_FIELDS else ""
        raise BadRecordError(
            "missing field", f"no '{self._inside}{key}'; fields are: {have}{more}"
        )

    def text(self, key: str) -> str:
        """A string with something in it."""
        return self.get(key, text)


def objects(value: Any, what: str) -> list[Fields]:
    """A list of objects."""
    return [Fields(x, f"{what}[{i}]") for i, x in enumerate(LIST(value, what))]
