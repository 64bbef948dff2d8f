"""Blocks of tokens that see some blocks, as kernels for TPUs.

A group of heads has the keys and values of a sequence in memory at once; a program has
a block of its queries and reads the blocks that these see, of which those drawn differ
by head. Gradients of keys are added where they were read, and written with the last
block. As in `tiles`, keys are on sublanes and the queries of all heads of the group on
lanes: lane w * s + i is query i of head w.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from etc_jax.ops.attention.kernels.tpu import calls
from etc_jax.ops.attention.kernels.tpu.calls import Part
from etc_jax.ops.attention.kernels.tpu.registers import heads_apart, iota, product
from etc_jax.ops.attention.kernels.tpu.tiles import LOG2_E, normalised
from etc_jax.ops.attention.parts.block_parts import BAND
from etc_jax.ops.attention.parts.softmax import MASKED
from etc_jax.ops.blocking import like
from etc_jax.ops.dropout import counted_factors

Array = jax.Array

_OF_KEYS = ("key", "value")


@dataclasses.dataclass(frozen=True)
class Options:
    """Static choices; hashable.

    Attributes:
      scale: of the logits, above 0.
      dropout_rate: of probabilities.
      size: s, tokens of a block.
      first: number of the first block with queries, 1 or more.
      common: numbers of the blocks that all see.
      draws: r, blocks that each sees besides.
      ways: heads of a group.
      interpret: run as plain operations, on any device.
    """

    scale: float
    dropout_rate: float
    size: int
    first: int
    common: tuple[int, ...]
    draws: int
    ways: int
    interpret: bool

    @property
    def lanes(self) -> int:
        """Queries of a program, of all heads of the group."""
        return self.ways * self.size

    @property
    def shared(self) -> int:
        """Keys that all heads see."""
        return (BAND + len(self.common)) * self.size

    @property
    def keys(self) -> int:
        """Keys that a head sees."""
        return self.shared + self.draws * self.size


class Inputs(NamedTuple):
    """Padded to whole groups of heads; F = groups * ways * d features, B blocks.

    Attributes:
      query: `[b, B * s, F]`; those of B - first - 1 blocks are read.
      key, value: `[b, B * s, F]`.
      ids: int32 `[b, B * s, 1]` of examples; 0 is padding.
      row_ids: the same of queries, `[b, blocks, 1, ways * s]`.
      drawn: int32 `[groups, ways, blocks * r]`, numbers of blocks.
      seeds: uint32 `[b, groups * ways, 1]` of dropout, or None.
    """

    query: Array
    key: Array
    value: Array
    ids: Array
    row_ids: Array
    drawn: Array
    seeds: Array | None


class _Keys(NamedTuple):
    """Keys that a program reads, of all heads of its group or of one.

    Attributes:
      cuts: (first row, rows) of each run of them.
      sees: bool `[keys, ways * s]`.
    """

    cuts: list[tuple[Any, int]]
    sees: Array

    def read(self, ref) -> Array:
        """`[keys, width]`."""
        return jnp.concatenate([ref[pl.ds(*cut), :] for cut in self.cuts])

    def add(self, total, gradient: Array) -> None:
        """Adds `[keys, width]` to a ref of all keys, where they are read."""
        start = 0
        for first, rows in self.cuts:
            total[pl.ds(first, rows), :] += gradient[start : start + rows]
            start += rows


def _head(options: Options, shape: tuple[int, int], axis: int) -> Array:
    """int32 of the shape: the head of a lane, or of a feature."""
    return iota(shape, axis) // (shape[axis] // options.ways)


def _keys(options: Options, inputs) -> list[_Keys]:
    """What a program reads: keys of all heads, then those drawn for each."""
    index, s = pl.program_id(2), options.size
    number, row_ids = options.first + index, inputs["row_ids"][...]

    def keys(cuts, are_seen):
        cuts = [(pl.multiple_of(first, s), rows) for first, rows in cuts]
        ids = [
            jnp.where(is_seen, inputs["ids"][pl.ds(*cut), :], 0)
            for cut, is_seen in zip(cuts, are_seen, strict=True)
        ]
        ids = jnp.concatenate(ids)
        return _Keys(cuts, (ids == row_ids) & (ids > 0))

    cuts, are_seen = [((number - 1) * s, BAND * s)], [True]
    for block in options.common:
        cuts.append((block * s, s))
        # A common block that is in the band is not seen a second time.
        are_seen.append(jnp.abs(number - block) > 1)
    pieces = [keys(cuts, are_seen)]
    for way in range(options.ways if options.draws else 0):
        drawn = [
            inputs["drawn"][way, index * options.draws + i]
            for i in range(options.draws)
        ]
        pieces.append(keys([(block * s, s) for block in drawn], [True] * options.draws))
    return pieces


def _joined(options: Options, keys: list[_Keys], fn: Callable) -> Array:
    """`fn` of the keys of all heads, then of those drawn: `[keys, ways * s]`."""
    shared, *drawn = (fn(x) for x in keys)
    if not drawn:
        return shared
    head = _head(options, (1, options.lanes), 1)
    of_heads = drawn[0]
    for way in range(1, options.ways):
        of_heads = jnp.where(head == way, drawn[way], of_heads)
    return jnp.concatenate([shared, of_heads])


def _apart(options: Options, x: Array) -> list[Array]:
    """The inverse of `_joined`: zeros in lanes of heads that did not draw a key."""
    shared, drawn = x[: options.shared], x[options.shared :]
    if not options.draws:
        return [shared]
    head = _head(options, (1, options.lanes), 1)
    return [
        shared,
        *(jnp.where(head == way, drawn, 0) for way in range(options.ways)),
    ]


def _scores(options: Options, inputs, keys: list[_Keys], query: Array) -> Array:
    """float32 `[keys, ways * s]`, before the scale."""

    def of_keys(x: _Keys):
        scores = product(x.read(inputs["key"]), query, (1, 1))
        return jnp.where(x.sees, scores, MASKED)

    return _joined(options, keys, of_keys)


def _factors(options: Options, inputs) -> Array | None:
    """Of dropout, `[keys, ways * s]`, or None: by places of queries and of slots."""
    if not options.dropout_rate:
        return None
    lane = iota((1, options.lanes), 1)
    first = pl.program_id(1) * options.ways
    seed = jnp.zeros((1, options.lanes), jnp.int32)
    for way in range(options.ways):
        of_head = inputs["seeds"][first + way, 0].astype(jnp.int32)
        seed = jnp.where(lane // options.size == way, of_head, seed)
    row = pl.program_id(2) * options.size + lane % options.size
    column = iota((options.keys, 1), 0)
    rate, seed = options.dropout_rate, seed.astype(jnp.uint32)
    return counted_factors(rate, seed, row, column)


def _heads_together(options: Options, x: Array) -> Array:
    """`[width, ways * s]` -> `[s, width]`: of each head its features and queries."""
    x, s = x.T, options.size
    head = _head(options, (s, x.shape[1]), 1)
    rows = x[:s]
    for way in range(1, options.ways):
        rows = jnp.where(head == way, x[way * s : (way + 1) * s], rows)
    return rows


def _forward(inputs, outputs, scratch, *, options: Options):
    del scratch
    keys = _keys(options, inputs)
    query = heads_apart(inputs["query"][...], options.ways)
    scores = _scores(options, inputs, keys, query)
    top = jnp.max(scores, axis=0, keepdims=True)
    p = jnp.exp2((scores - top) * (options.scale * LOG2_E))
    total = jnp.sum(p, axis=0, keepdims=True)
    factors = _factors(options, inputs)
    if factors is not None:
        p = p * factors
    dtype = inputs["value"].dtype
    acc = sum(
        product(x.read(inputs["value"]).T, part)
        for x, part in zip(keys, _apart(options, p.astype(dtype)), strict=True)
    )
    factor, lse = normalised(options.scale, total, top)
    output = _heads_together(options, acc * factor)
    outputs["output"][...] = output.astype(outputs["output"].dtype)
    outputs["lse"][...] = lse


def _backward(inputs, outputs, scratch, *, options: Options):
    index, ways = pl.program_id(2), options.ways

    @pl.when(index == 0)
    def _():
        for name in _OF_KEYS:
            scratch[name][...] = jnp.zeros(scratch[name].shape, jnp.float32)

    keys = _keys(options, inputs)
    query, d_output = (
        heads_apart(inputs[name][...], ways) for name in ("query", "d_output")
    )
    scores = _scores(options, inputs, keys, query)
    lse = inputs["lse"][...] * LOG2_E
    p = jnp.exp2(scores * (options.scale * LOG2_E) - lse)
    dp = _joined(
        options, keys, lambda x: product(x.read(inputs["value"]), d_output, (1, 1))
    )
    dropped, factors = p, _factors(options, inputs)
    if factors is not None:
        dropped, dp = p * factors, dp * factors
    ds = (p * (dp - inputs["delta"][...])).astype(query.dtype)
    parts = zip(
        keys,
        _apart(options, ds),
        _apart(options, dropped.astype(query.dtype)),
        strict=True,
    )
    d_query = jnp.zeros((query.shape[1], options.lanes), jnp.float32)
    for x, ds, dropped in parts:
        d_query += product(x.read(inputs["key"]).T, ds)
        x.add(scratch["key"], product(ds, query))
        x.add(scratch["value"], product(dropped, d_output))
    d_query = _heads_together(options, d_query) * options.scale
    outputs["query"][...] = d_query.astype(outputs["query"].dtype)

    @pl.when(index == pl.num_programs(2) - 1)
    def _():
        for name, scale in zip(_OF_KEYS, (options.scale, 1), strict=True):
            gradient = scratch[name][...] * scale
            outputs[name][...] = gradient.astype(outputs[name].dtype)


class _Parts(NamedTuple):
    """Which part of its arrays a program has."""

    options: Options
    grid: tuple[int, int, int]
    width: int

    @classmethod
    def of(cls, options: Options, inputs: Inputs) -> _Parts:
        groups, blocks = inputs.drawn.shape[0], inputs.row_ids.shape[1]
        width = inputs.query.shape[2] // groups
        return cls(options, (inputs.query.shape[0], groups, blocks), width)

    @property
    def queries(self) -> tuple[int, int, int]:
        """Shape of what is written of queries."""
        b, groups, blocks = self.grid
        return b, blocks * self.options.size, groups * self.width

    @property
    def per_row(self) -> tuple[int, int, int, int, int]:
        """Shape of one number for each query and head."""
        return (*self.grid, 1, self.options.lanes)

    def _programs(self) -> int:
        b, groups, blocks = self.grid
        return b * groups * blocks

    def block(self, x, first: int = 0) -> Part:
        """A block of `[b, n, F]`, from number `first` on."""
        shape = (None, self.options.size, self.width)
        return Part(x, shape, lambda b, g, i: (b, first + i, g), self._programs())

    def whole(self, x) -> Part:
        """A group of `[b, n, F]`."""
        shape = (None, x.shape[1], self.width)
        return Part(x, shape, lambda b, g, i: (b, 0, g), self.grid[0] * self.grid[1])

    def rows(self, x) -> Part:
        """Of `per_row`."""
        shape = (None, None, None, 1, self.options.lanes)
        return Part(x, shape, lambda b, g, i: (b, g, i, 0, 0), self._programs())

    def inputs(self, x: Inputs) -> dict[str, Part]:
        """What both passes read."""
        b, groups, _ = self.grid
        ids = (None, *x.ids.shape[1:])
        row_ids = (None, None, 1, self.options.lanes)
        parts = {
            "query": self.block(x.query, self.options.first),
            "key": self.whole(x.key),
            "value": self.whole(x.value),
            "ids": Part(x.ids, ids, lambda b, g, i: (b, 0, 0), b),
            "row_ids": Part(
                x.row_ids, row_ids, lambda b, g, i: (b, i, 0, 0), self._programs()
            ),
        }
        if self.options.draws:
            drawn = (None, *x.drawn.shape[1:])
            parts["drawn"] = Part(
                x.drawn, drawn, lambda b, g, i: (g, 0, 0), b * groups, scalars=True
            )
        if x.seeds is not None:
            parts["seeds"] = calls.scalars(x.seeds)
        return parts

    def run(self, body, name: str, inputs, outputs, scratch, products: int) -> dict:
        """Runs a kernel with so many products of queries and keys."""
        pairs = self._programs() * self.options.lanes * self.options.keys
        return calls.call(
            functools.partial(body, options=self.options),
            name,
            self.options.interpret,
            self.grid,
            inputs,
            outputs,
            scratch,
            flops=2 * products * pairs * (self.width // self.options.ways),
            exponentials=pairs,
        )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(options: Options, inputs: Inputs) -> Array:
    """Attention of the blocks from `first` to the one before the last.

    Returns:
      `[b, blocks * s, F]` in the dtype of the queries; rows that see nothing are zero.
    """
    return _of_blocks(options, inputs)[0]


def _of_blocks(options: Options, inputs: Inputs) -> tuple[Array, Array]:
    """(output, log-sum-exp float32 `[b, groups, blocks, 1, ways * s]`)."""
    parts = _Parts.of(options, inputs)
    output = jax.ShapeDtypeStruct(parts.queries, inputs.query.dtype)
    lse = jax.ShapeDtypeStruct(parts.per_row, jnp.float32)
    outputs = {"output": parts.block(output), "lse": parts.rows(lse)}
    name = "sparse_blocks_forward"
    results = parts.run(_forward, name, parts.inputs(inputs), outputs, {}, 2)
    return results["output"], results["lse"]


def _vjp_forward(options: Options, inputs: Inputs):
    output, lse = map(calls.saved, _of_blocks(options, inputs))
    return output, (inputs, output, lse)


def _vjp_backward(options: Options, saved, d_output: Array):
    inputs, output, lse = saved
    parts = _Parts.of(options, inputs)
    b, groups, blocks = parts.grid
    heads = groups * options.ways
    # [b, h, blocks * s] -> [b, groups, blocks, 1, ways * s].
    delta = calls.row_deltas(output, d_output, heads)
    delta = delta.reshape(b, groups, options.ways, blocks, options.size)
    delta = jnp.swapaxes(delta, 2, 3).reshape(lse.shape)
    of_rows = {"lse": parts.rows(lse), "delta": parts.rows(delta)}
    moved = parts.inputs(inputs) | of_rows | {"d_output": parts.block(d_output)}
    d_query = jax.ShapeDtypeStruct(parts.queries, inputs.query.dtype)
    outputs = {"query": parts.block(d_query)}
    outputs |= {name: parts.whole(like(getattr(inputs, name))) for name in _OF_KEYS}
    total = pltpu.VMEM((inputs.key.shape[1], parts.width), jnp.float32)
    scratch = dict.fromkeys(_OF_KEYS, total)
    name = "sparse_blocks_backward"
    results = parts.run(_backward, name, moved, outputs, scratch, 5)
    # Queries of other blocks are not read.
    before = options.first * options.size
    after = inputs.query.shape[1] - before - parts.queries[1]
    query = jnp.pad(results["query"], ((0, 0), (before, after), (0, 0)))
    return (Inputs(query, results["key"], results["value"], *(None,) * 4),)


attend.defvjp(_vjp_forward, _vjp_backward)
