"""Pickles of arrays, read without running what they hold.

A pickle names functions of any module and has them called. Here only those that make
numpy arrays are known, beside the containers, numbers and strings of Python; in the
place of everything else stands an `Unread`, and nothing is imported or called.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.data.input_files import unpacked

_GZIP = b"\x1f\x8b"
# What numpy's own pickles call: taken from one, as modules change their names.
_RECONSTRUCT = np.zeros(1).__reduce__()[0]
_FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]
_SCALAR = np.float32(1).__reduce__()[0]
_KNOWN = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{
        (f"numpy.{core}.{module}", function.__name__): function
        for core in ("core", "_core")
        for module, function in (
            ("multiarray", _RECONSTRUCT),
            ("multiarray", _SCALAR),
            ("numeric", _FROM_BUFFER),
        )
    },
}


class Unread:
    """What a class or function of a pickle would have made; it does nothing.

    Attributes:
      origin: module and name in the pickle.
    """

    origin = ""

    def __init__(self, *args, **kwargs):
        """Takes what was meant for the other class or function, as all do here."""

    def _nothing(self, *args, **kwargs) -> Unread:
        return self

    # What a pickle may ask of an object.
    __call__ = __setstate__ = __setitem__ = append = extend = add = _nothing


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (replacement := _KNOWN.get((module, name))) is not None:
            return replacement
        return type("Unread", (Unread,), {"origin": f"{module}.{name}"})


def read_pickle(path: str | os.PathLike) -> Any:
    """What a pickle holds, compressed by gzip or not.

    Returns:
      containers, numbers, strings, numpy arrays, and `Unread` for all else.

    Raises:
      ValueError: if it is damaged, or no pickle, or grows as no weights do.
      OSError: if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
            return _Unpickler(unpacked(file) if is_packed else file).load()
    except OSError:
        raise
    # Which one a damaged pickle leads to is not documented: it may be any.
    except Exception as error:
        raise ValueError(
            f"{path} is damaged, or no pickle of numpy arrays: {error!r}"
        ) from error


def leaves(nest: Any, location: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """{indices and keys on the way: leaf} of lists, tuples and dicts in each other.

    Raises:
      ValueError: if they are deeper than a model is (some may hold themselves).
    """
    if isinstance(nest, Mapping):
        inner = nest.items()
    elif isinstance(nest, list | tuple):
        inner = enumerate(nest)
    else:
        return {location: nest}
    if len(location) > _MAX_DEPTH:
        raise ValueError(f"the containers are more than {_MAX_DEPTH} deep")
    merged = {}
    for key, value in inner:
        merged |= leaves(value, (*location, key))
    return merged


_MAX_DEPTH = 16
