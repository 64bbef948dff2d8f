"""Names for the things a config can choose: attentions, models, objectives.

A new one is a file with one `@register` line; conformance tests walk the table.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_TABLES: dict[str, dict[str, Any]] = {}


def register(kind: str, name: str) -> Callable[[T], T]:
    """Decorator that files an object under `(kind, name)`.

    Raises:
      ValueError: if the name is taken by another object.
    """

    def add(obj: T) -> T:
        table = _TABLES.setdefault(kind, {})
        # A module run as __main__ is imported a second time under its own name.
        if name in table and table[name].__qualname__ != obj.__qualname__:
            raise ValueError(
                f"{kind} {name!r} is already {table[name]!r}; choose another name"
            )
        table[name] = obj
        return obj

    return add


def lookup(kind: str, name: str) -> Any:
    """The object filed under `(kind, name)`.

    Raises:
      KeyError: naming what exists, if there is no such name.
    """
    table = _TABLES.get(kind, {})
    if name not in table:
        raise KeyError(f"no {kind} named {name!r}; there are: {sorted(table)}")
    return table[name]


def names(kind: str) -> Iterator[str]:
    """The registered names of one kind, sorted."""
    return iter(sorted(_TABLES.get(kind, {})))
