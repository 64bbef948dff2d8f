"""Reading gold and prediction files, with errors that say where."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from etc_jax.base import strict_json

G = TypeVar("G")
P = TypeVar("P")


def read_json(path: str | os.PathLike) -> Any:
    """The value in a JSON file.

    Raises:
      ValueError: if it cannot be read, is no JSON, or an object in it has a key twice
        (of which JSON readers keep the last without a word).
    """
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        return strict_json.loads(text)
    except OSError as e:
        raise ValueError(f"cannot read {path}: {e.strerror}") from e
    except ValueError as e:
        raise ValueError(f"{path} is not a whole JSON file in UTF-8: {e}") from e


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


def read_pair(
    gold: str | os.PathLike,
    predictions: str | os.PathLike,
    check_gold: Callable[[Any, str], G],
    check_predictions: Callable[[Any, str], P],
) -> tuple[G, P]:
    """What is in a gold and a prediction file.

    Args:
      gold: JSON file.
      predictions: JSON file.
      check_gold: (value, where) -> the value, or a ValueError that names `where`.
      check_predictions: the same for the predictions.

    Raises:
      ValueError: if a file cannot be read, or is refused; names it.
    """
    records = check_gold(read_json(gold), str(gold))
    return records, check_predictions(read_json(predictions), str(predictions))


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


def require_common_ids(
    gold: Collection[str], predicted: Collection[str], where: str
) -> None:
    """Raises if there are predictions, but for no gold record.

    Raises:
      ValueError: naming `where` and an id of each.
    """
    if gold and predicted and not set(gold) & set(predicted):
        raise ValueError(
            f"{where}: predictions for ids of the gold file expected, such as "
            f"{min(gold)!r}; got {len(predicted)} for none of its {len(gold)} records, "
            f"such as {min(predicted)!r}"
        )
