"""Texts of about one length go through a model together.

Padded lengths are few, so that few programs are compiled: 16, 24, 32, 48, 64, ....
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

SHORTEST = 16
# Tokens of padding that a program must save. Six layers of 384 on one core of a CPU
# compute them in about the time in which they are compiled; wider layers need longer.
WORTH_A_PROGRAM = 2048


class Group(NamedTuple):
    """Inputs that are computed together.

    Attributes:
      indices: of the inputs among all.
      rows: of the batch; those after the inputs are there to keep shapes few.
      length: with padding.
    """

    indices: list[int]
    rows: int
    length: int


def padded_length(length: int) -> int:
    """The next power of two, or three quarters of it; 16 at least."""
    power = 1 << max(length - 1, SHORTEST - 1).bit_length()
    between = power * 3 // 4
    return between if SHORTEST < length <= between else power


def groups(
    lengths: Sequence[int], limit: Callable[[int], int | None], batch_size: int
) -> list[Group]:
    """Groups of inputs, the longest first: where memory is short, that shows at once.

    A shape is a program to compile: there is one of its own where it saves
    `WORTH_A_PROGRAM` tokens of padding.

    Args:
      lengths: of the inputs.
      limit: gives the longest padded length that an input of a length may have, None:
        any; inputs of one group have the same.
      batch_size: inputs of a group, at most.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
    formed: list[Group] = []
    for most, some in itertools.groupby(order, lambda i: limit(lengths[i])):
        indices = list(some)
        padded = [padded_length(lengths[i]) for i in indices]
        if most is not None:
            padded = [min(length, most) for length in padded]
        padded = _worthwhile(padded)
        while indices:
            rows = _rows_of_first(padded, batch_size, formed)
            formed.append(Group(indices[:rows], rows, padded[0]))
            del indices[:rows], padded[:rows]
    return formed


def _worthwhile(padded: Sequence[int]) -> list[int]:
    """The padded lengths; some become the next longer one."""
    counts = collections.Counter(padded)
    ordered = sorted(counts)
    taken, waiting, count = {}, [], 0
    for length, longer in itertools.zip_longest(ordered, ordered[1:]):
        waiting.append(length)
        count += counts[length]
        if longer is None or count * (longer - length) >= WORTH_A_PROGRAM:
            taken |= dict.fromkeys(waiting, length)
            waiting, count = [], 0
    return [taken[x] for x in padded]


def _rows_of_first(padded: Sequence[int], batch_size: int, before: list[Group]) -> int:
    """Rows of the group that begins with the first of the padded lengths left."""
    length = padded[0]
    # The others would be padded to twice their length or more.
    rows = _rows(sum(2 * x > length for x in padded[:batch_size]), batch_size)
    if sum(length - x for x in padded[rows:batch_size]) < WORTH_A_PROGRAM:
        rows = _rows(min(len(padded), batch_size), batch_size)
    is_compiled = any((g.rows, g.length) == (batch_size, length) for g in before)
    if is_compiled and (batch_size - rows) * length < WORTH_A_PROGRAM:
        return batch_size
    return rows


def new_shapes_first(formed: Iterable[Group]) -> list[Group]:
    """The first group of each shape, then the others, both in their order.

    Where groups are computed at once, each program is then compiled by one of them.
    """
    first, others, shapes = [], [], set()
    for group in formed:
        shape = group.rows, group.length
        (others if shape in shapes else first).append(group)
        shapes.add(shape)
    return first + others


def _rows(count: int, batch_size: int) -> int:
    return min(1 << (count - 1).bit_length(), batch_size)
