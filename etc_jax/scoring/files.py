"""Checks of gold answers and predictions, with errors that say where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def typed(value: Any, kind: type, where: str) -> Any:
    """The value, if it is of that type; a tuple is an array too.

    Raises:
      ValueError: if it is not.
    """
    accepted = (list, tuple) if kind is list else kind
    if not isinstance(value, accepted):
        got = _NAMES.get(type(value), type(value).__name__)
        raise ValueError(
            f"{where}: {_NAMES[kind]} expected, got {got}, {str(value)[:60]!r}"
        )
    return value


def field(record: dict, name: str, kind: type, where: str) -> Any:
    """A field of a record, if it is there and of that type.

    Raises:
      ValueError: if it is not.
    """
    if name not in record:
        fields = ", ".join(sorted(map(str, record))) or "none"
        raise ValueError(f"{where}: no field {name!r}; fields are: {fields}")
    return typed(record[name], kind, f"{where}, field {name!r}")


def texts_by_id(value: Any, where: str, what: str) -> dict[str, str]:
    """An object, if all that it holds are texts.

    Args:
      value: texts by id.
      where: words for where they are from.
      what: each text is, such as "answer".

    Raises:
      ValueError: naming `where` and the id, if one is no text.
    """
    for identity, text in typed(value, dict, where).items():
        typed(text, str, f"{where}, {what} of {identity!r}")
    return value


_NAMES = {
    dict: "an object",
    list: "an array",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true/false",
    type(None): "null",
}


def identified(
    records: Any, id_field: str, where: str
) -> Iterator[tuple[dict[str, Any], str]]:
    """Each record of a list, with words for where it is.

    Raises:
      ValueError: naming `where` and the record, if it is no list of objects with ids.
    """
    for number, record in enumerate(typed(records, list, where)):
        at = f"{where}, record {number}"
        identity = field(typed(record, dict, at), id_field, str, at)
        yield record, f"{at} ({identity})"
