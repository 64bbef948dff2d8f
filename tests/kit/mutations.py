"""Small random damage to JSON values, their spelling, and files.

Every function takes a `random.Random`, so that a seed gives the same damage again:
`random.Random(7)`, or `hypothesis.strategies.randoms(use_true_random=False)`, with
which hypothesis also looks for the least damage that fails. What is given stays as it
is; the changed copy is returned.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Key = str | int

STRINGS = (
    "",
    " \t\n",
    "\0",
    "a\0b",
    "\ud800",
    "\udfff\ud800 x",
    "\u202e\u2066evil\u2069",
    "\x1b[2J\x1b]0;title\x07",
    "\x85\u2028\u2029",
    "\ufeff",
    "\U0001f469\u200d\U0001f469",
    "e" + "\u0301" * 200,
    "../../etc/passwd",
    "/",
    "-1",
    "null",
    "word " * 3000,
    "x" * 20_000,
)
NUMBERS = (
    0,
    -1,
    1,
    -(2**31) - 1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    -(10**400),
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)
# What `json.dumps` does not write, or not of these values.
LITERALS = (
    "1e999",
    "-1e999",
    "9" * 5000,
    "NaN",
    "-Infinity",
    r'"\ud800"',
    r'"\u0000"',
    '{"a": 1, "a": []}',
    "[" * 200 + "]" * 200,
    "[" * 100_000,
    '{"a":' * 50_000,
    "",
    "nul",
    "'x'",
    "01",
)
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')


def odd_value(rng: random.Random) -> Any:
    """A JSON value that a field seldom expects; a new one each time."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(STRINGS)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice((None, True, False))
    if kind == 3:
        return nested(rng.choice((None, 1, "x")), rng.choice((1, 2, 50)))
    return copy.deepcopy(
        rng.choice(([], {}, [None], [""], [[]], [5], ["T", None], {"": None}))
    )


def nested(value: Any, depth: int) -> Any:
    """The value within so many lists."""
    for _ in range(depth):
        value = [value]
    return value


def places(value: Any) -> Iterator[tuple[Any, Key]]:
    """(object or list, key or index) of everything inside a JSON value."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in list(items):
            yield value, key
            yield from places(inner)


def mutated(value: Any, rng: random.Random, *, most: int = 2) -> Any:
    """The value, changed in one place or in up to `most`, from the root downwards."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, most)):
        # Large lists would else take all of the changes: first a depth, then a place.
        there = list(_descent(value, rng))
        if not there or rng.random() < 0.02:
            value = odd_value(rng)
        else:
            rng.choice(CHANGES)(*rng.choice(there), rng)
    return value


def _descent(value: Any, rng: random.Random) -> Iterator[tuple[Any, Key]]:
    """Places from the root to a leaf, by a random child at each level."""
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        yield value, key
        value = value[key]


def _replace(parent: Any, key: Key, rng: random.Random) -> None:
    parent[key] = odd_value(rng)


def _delete(parent: Any, key: Key, rng: random.Random) -> None:
    del parent[key]


def _extreme(parent: Any, key: Key, rng: random.Random) -> None:
    """Another value of the same type, where the type has extremes."""
    old = parent[key]
    if isinstance(old, str):
        parts = (rng.choice(STRINGS), old[: rng.randint(0, min(len(old), 40))])
        parent[key] = "".join(rng.sample(parts, 2))
    elif isinstance(old, bool | None):
        parent[key] = rng.choice((0, 1, "true", None))
    elif isinstance(old, int | float):
        parent[key] = rng.choice((*NUMBERS, old + 1, old - 1, -old, str(old)))
    else:
        parent[key] = type(old)()


def _rewrap(parent: Any, key: Key, rng: random.Random) -> None:
    """One list more or less, or an object in place of a list."""
    old = parent[key]
    if isinstance(old, list) and old and rng.random() < 0.5:
        parent[key] = rng.choice((old[0], {str(i): x for i, x in enumerate(old)}))
    elif isinstance(old, dict) and old and rng.random() < 0.5:
        parent[key] = list(old.values())
    else:
        parent[key] = rng.choice(([old], {"value": old}))


def _repeat(parent: Any, key: Key, rng: random.Random) -> None:
    """An element twice, or a field under another name."""
    old = copy.deepcopy(parent[key])
    if isinstance(parent, list):
        parent.insert(rng.randint(0, len(parent)), old)
    else:
        parent[rng.choice(("", "x", str(key).upper(), f"{key} "))] = old


def _swap(parent: Any, key: Key, rng: random.Random) -> None:
    """Two neighbours change places."""
    other = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
    parent[key], parent[other] = parent[other], parent[key]


CHANGES: Sequence[Callable[[Any, Key, random.Random], None]] = (
    _replace,
    _replace,
    _delete,
    _extreme,
    _extreme,
    _rewrap,
    _repeat,
    _swap,
)


def spelled(value: Any, rng: random.Random) -> str:
    """The JSON text of a value; one in three times with a spelling that is odd.

    Odd is a literal that `json.dumps` would not write, or an object's key twice.
    """
    text = json.dumps(value)
    if rng.random() < 2 / 3:
        return text
    found = list(_LITERAL.finditer(text))
    if not found:
        return rng.choice(LITERALS)
    at = rng.choice(found)
    if text[at.end() : at.end() + 1] == ":":
        twice = f"{at[0]}: {json.dumps(odd_value(rng))}, {at[0]}"
        return text[: at.start()] + twice + text[at.end() :]
    return text[: at.start()] + rng.choice(LITERALS) + text[at.end() :]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes of a file with one fault, such as a cut, a flip, or no UTF-8."""
    if not data:
        return rng.choice((b"\0", b"\xff\xfe", b"\n", b"x"))
    at = rng.randrange(len(data))
    kind = rng.randrange(8)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[at:]
    if kind == 2:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 3:
        end = min(len(data), at + rng.randint(1, 64))
        return data[:at] + data[end:]
    if kind == 4:
        end = min(len(data), at + rng.randint(1, 64))
        return data[:end] + data[at:end] + data[end:]
    if kind == 5:
        end = min(len(data), at + rng.randint(1, 64))
        return data[:at] + bytes(end - at) + data[end:]
    if kind == 6:
        return (
            data[:at] + rng.choice((b"\n", b"\r", b'"', b"\\", b"\x1b[2J")) + data[at:]
        )
    odd = (
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"\xef\xbb\xbf",
        b"\0",
    )
    return data[:at] + rng.choice(odd) + data[at:]


def damaged_gzip(data: bytes, rng: random.Random) -> bytes:
    """The data packed, and the packed bytes damaged or followed by something else."""
    packed = gzip.compress(data, compresslevel=1, mtime=0)
    kind = rng.randrange(4)
    if kind == 0:
        return packed + rng.choice((b"\0" * 9, b"x", packed[:12]))
    if kind == 1:
        return packed + packed
    return damaged(packed, rng)
