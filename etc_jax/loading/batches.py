"""Texts of about one length go through a model together.

Padded lengths are few, so that few programs are compiled: 16, 24, 32, 48, 64, ....
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

SHORTEST = 16


class Group(NamedTuple):
    """Inputs that are computed together.

    Attributes:
      places: of the inputs among all.
      rows: of the batch; those after the inputs are there to keep shapes few.
      length: with padding.
    """

    places: list[int]
    rows: int
    length: int


def padded_length(length: int) -> int:
    """The next power of two, or three quarters of it; 16 at least."""
    power = 1 << max(length - 1, SHORTEST - 1).bit_length()
    between = power * 3 // 4
    return between if SHORTEST < length <= between else power


def groups(
    lengths: Sequence[int], limit: Callable[[int], int], batch_size: int
) -> Iterator[Group]:
    """Groups of inputs, the longest first: where memory is short, that shows at once.

    An input is padded to less than twice its own padded length.

    Args:
      lengths: of the inputs.
      limit: gives the longest padded length that an input of a length may have; inputs
        of one group have the same.
      batch_size: inputs of a group, at most.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
    start = 0
    while start < len(order):
        most = limit(lengths[order[start]])
        length = min(padded_length(lengths[order[start]]), most)
        stop = start
        for i in order[start : start + batch_size]:
            if limit(lengths[i]) != most or 2 * padded_length(lengths[i]) <= length:
                break
            stop += 1
        yield Group(order[start:stop], _rows(stop - start, batch_size), length)
        start = stop


def new_shapes_first(found: Iterable[Group]) -> list[Group]:
    """The first group of each shape, then the others, both in their order.

    Where groups are computed at once, each program is then compiled by one of them.
    """
    first, others, shapes = [], [], set()
    for group in found:
        shape = group.rows, group.length
        (others if shape in shapes else first).append(group)
        shapes.add(shape)
    return first + others


def _rows(count: int, batch_size: int) -> int:
    return min(1 << (count - 1).bit_length(), batch_size)
