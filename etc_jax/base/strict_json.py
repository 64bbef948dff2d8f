"""JSON in which an object says each thing once, for all files of our own."""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value of a text; of bytes, UTF-8 as a rule, as `json.loads` finds out.

    Raises:
      ValueError: if it is no JSON, is nested too deeply (where `json` raises a
        RecursionError), or an object in it has a key twice (of which JSON readers keep
        the last without a word).
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return values
