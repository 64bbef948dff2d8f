"""Rows over all keys of one or two pieces, in one online softmax.

Keys of the last piece come in chunks, one after the other, and to each chunk come all
blocks of rows: the gradients of a chunk of keys are finished with it. Sums of rows stay
in memory until the last chunk. A first piece of two is all keys of the rows' own side,
which come with the first chunk; the rows are one block then.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from etc_jax.ops.attention.kernels.tpu import calls, strips, tiles
from etc_jax.ops.attention.kernels.tpu.calls import Inputs, Part
from etc_jax.ops.attention.kernels.tpu.registers import (
    LANES,
    head_products,
    heads_apart,
)
from etc_jax.ops.attention.kernels.tpu.tiles import Pairs, Softmax, Tile
from etc_jax.ops.attention.parts.softmax import MASKED
from etc_jax.ops.blocking import like

Array = jax.Array

# Of the sums of rows and keys that stay in memory, all groups of heads together.
_SUMS_BYTES = 16 * 2**20

_OF_KEYS = ("keys", "values")


def _tile(length: int, most: int) -> int:
    """Rows or keys of a tile: the most that divide all of them."""
    sizes = range(LANES, most + 1, LANES)
    return max(size for size in sizes if length % size == 0)


class _Program(NamedTuple):
    """Indices of a program."""

    example: Array
    chunk: Array
    block: Array
    group: Array


class _Sizes(NamedTuple):
    """Of a call; static.

    Attributes:
      examples: b.
      chunks: of the keys of the last piece.
      blocks: of rows.
      groups: of heads.
      width: features of a group.
      ways: heads of a group.
      rows: of a block.
      keys: in a tile of each piece.
      by_group: whether programs of one group follow each other, and not of one tile:
        its sums alone are in memory, but pairs are worked out again for each group.
    """

    examples: int
    chunks: int
    blocks: int
    groups: int
    width: int
    ways: int
    rows: int
    keys: tuple[int, ...]
    by_group: bool

    @classmethod
    def of(cls, softmax: Softmax, inputs: Inputs) -> _Sizes:
        b, n, features = inputs.query.shape
        *whole, last = (key.shape[1] for key, _ in inputs.arrays)
        rows, chunk = _tile(n, 512), _tile(last, 256 if whole else 512)
        # Output or gradient of a query, and the gradients of a key and its value.
        sums = 4 * features * (n + 2 * chunk)
        return cls(
            examples=b,
            chunks=last // chunk,
            blocks=n // rows,
            groups=features // softmax.width,
            width=softmax.width,
            ways=softmax.ways,
            rows=rows,
            keys=(*whole, chunk),
            # The strip of a group is read once; a label table needs the groups last.
            by_group=inputs.bias is not None
            or (inputs.embedding is None and sums > _SUMS_BYTES),
        )

    @property
    def grid(self) -> tuple[int, ...]:
        """Of the programs."""
        tile = (self.examples, self.chunks, self.blocks)
        return (self.groups, *tile) if self.by_group else (*tile, self.groups)

    @property
    def slots(self) -> int:
        """Sums of a block of rows that are in memory at once."""
        return self.blocks * (1 if self.by_group else self.groups)

    @property
    def lead(self) -> int:
        """Of strips of all offsets."""
        return self.rows * self.blocks - LANES

    def program(self, *index) -> _Program:
        """Of indices in the grid."""
        if self.by_group:
            group, *tile = index
            return _Program(*tile, group)
        return _Program(*index)

    def here(self) -> _Program:
        """In a kernel: the one that runs."""
        return self.program(*map(pl.program_id, range(4)))

    def slot(self, at: _Program) -> Array:
        """Of the sums of a block of rows."""
        return at.block if self.by_group else at.block * self.groups + at.group

    def part(self, array, block: tuple, index, fetches: int) -> Part:
        """A part whose index is a function of a `_Program`."""
        return Part(array, block, lambda *x: index(self.program(*x)), fetches)

    def of_rows(self, x, at_last: bool = False) -> Part:
        """Rows of a group, of `[b, n, F]`; written with the last chunk alone or not."""
        block = (None, self.rows, self.width)
        index = functools.partial(self._of_rows, at_last)
        return self.part(x, block, index, self._fetches(at_last))

    def of_heads(self, x, at_last: bool = False) -> Part:
        """The same of `[b, groups, ways, n]`."""
        block = (None, None, self.ways, self.rows)

        def index(at):
            example, row, group = self._of_rows(at_last, at)
            return example, group, 0, row

        return self.part(x, block, index, self._fetches(at_last))

    def _fetches(self, at_last: bool) -> int:
        return math.prod(self.grid) // (self.chunks if at_last else 1)

    def _of_rows(self, at_last: bool, at: _Program) -> tuple:
        if not at_last:
            return at.example, at.block, at.group
        # Before the last chunk the part stays that which is written first.
        is_last = at.chunk == self.chunks - 1
        group = at.group if self.by_group else jnp.where(is_last, at.group, 0)
        return at.example, jnp.where(is_last, at.block, 0), group

    def of_keys(self, number: int, x, at_last: bool = False) -> Part:
        """Keys of a group, of `[b, k, F]`; written with the last block alone or not."""
        block = (None, self.keys[number], self.width)
        last = number == len(self.keys) - 1

        def index(at):
            if not last:
                # After the first chunk the part stays the same: no other is moved.
                later = self.groups - 1
                return at.example, 0, jnp.where(at.chunk == 0, at.group, later)
            group = at.group
            if at_last and not self.by_group:
                group = jnp.where(at.block == self.blocks - 1, group, 0)
            return at.example, at.chunk, group

        fetches = math.prod(self.grid)
        if not last:
            fetches //= self.chunks * self.blocks
        elif at_last or self.by_group:
            fetches //= self.blocks
        return self.part(x, block, index, fetches)

    def of_strip(self, x) -> Part:
        """The strip of a group, of `[groups, places, ways * 128]`."""
        block = (None, *x.shape[1:])
        return self.part(x, block, lambda at: (at.group, 0, 0), self.groups)


def span(softmax: Softmax, rows: int, keys: int) -> strips.Span:
    """Of the strips of so many rows and keys, with padding."""
    del softmax
    lead = rows - LANES
    return strips.Span(lead, lead + keys)


def _inputs(softmax: Softmax, sizes: _Sizes, x: Inputs) -> dict:
    """Parts of what both passes read."""
    last = len(x.keys) - 1
    tiles_read = math.prod(sizes.grid) // (1 if sizes.by_group else sizes.groups)
    ints = [
        sizes.part(
            array,
            (None, array.shape[1], sizes.keys[number]),
            lambda at, last=number == last: (at.example, 0, at.chunk if last else 0),
            tiles_read,
        )
        for number, array in enumerate(x.keys)
    ]
    parts = {
        "query": sizes.of_rows(x.query),
        "keys": [sizes.of_keys(i, key) for i, (key, _) in enumerate(x.arrays)],
        "values": [sizes.of_keys(i, value) for i, (_, value) in enumerate(x.arrays)],
        "rows": sizes.part(
            x.rows,
            (None, x.rows.shape[1], sizes.rows),
            lambda at: (at.example, 0, at.block),
            tiles_read,
        ),
        "key_ints": ints,
    }
    if x.bias is not None:
        parts["bias"] = sizes.of_strip(x.bias)
    rest = math.prod(sizes.grid), int(sizes.by_group)
    return parts | calls.of_table(softmax, x, *rest)


def _scratch(softmax: Softmax, sizes: _Sizes) -> dict:
    return {
        "pairs": [
            calls.pairs_scratch(softmax, i, keys, sizes.rows)
            for i, keys in enumerate(sizes.keys)
        ]
    }


def _run(
    softmax, sizes: _Sizes, body, name: str, parts, outputs, scratch, products: int
) -> dict:
    """Runs a kernel with so many products of tiles."""
    keys = sum(sizes.keys[:-1]) + sizes.keys[-1] * sizes.chunks
    heads = sizes.examples * sizes.groups * softmax.ways
    pairs = heads * sizes.rows * sizes.blocks * keys
    return calls.call(
        functools.partial(body, softmax=softmax, sizes=sizes),
        name,
        softmax.interpret,
        sizes.grid,
        parts,
        outputs,
        scratch,
        flops=2 * products * pairs * (sizes.width // softmax.ways),
        exponentials=pairs,
    )


def _for_each_tile(inputs, scratch, softmax: Softmax, sizes: _Sizes, at, fn) -> None:
    """Calls `fn` with each chunk, and with a first piece at the first chunk.

    Args:
      inputs: refs.
      scratch: refs.
      softmax: static choices.
      sizes: of the call.
      at: the `_Program`.
      fn: function of a `Tile`.
    """
    last = len(softmax.pieces) - 1
    new_pairs = sizes.by_group | (at.group == 0)
    first_query = at.block * sizes.rows
    for number, piece in enumerate(softmax.pieces):
        pairs = Pairs(*scratch["pairs"][number])

        def fill(number=number, piece=piece, pairs=pairs):
            of_rows = tiles.rows(softmax.row_vectors, inputs["rows"][...])
            ints = inputs["key_ints"][number][...].T
            of_keys = tiles.columns(softmax.key_vectors[number], ints)
            pairs.fill(piece, of_rows, of_keys)

        def use(number=number, pairs=pairs):
            key, value = (inputs[name][number][...] for name in _OF_KEYS)
            start, bias = 0, None
            if number == last:
                start = at.chunk * key.shape[0]
            if "bias" in inputs:
                at_strip = sizes.lead + start - first_query
                bias = strips.Strip(inputs["bias"], at_strip)
            fn(Tile(number, key, value, pairs, 0, start, bias))

        if number == last:
            seen = True
            if piece.causal_in_order and sizes.blocks > 1:
                # Keys after all of these rows are none of theirs.
                seen = at.chunk * sizes.keys[-1] < first_query + sizes.rows
            pl.when(new_pairs & seen)(fill)
            pl.when(seen)(use)
        else:
            pl.when((at.chunk == 0) & new_pairs)(fill)
            pl.when(at.chunk == 0)(use)


def _forward(inputs, outputs, scratch, *, softmax: Softmax, sizes: _Sizes):
    at, ways = sizes.here(), softmax.ways
    query = heads_apart(inputs["query"][...], ways)
    column = tiles.label_column(inputs, query, ways)
    seeds = tiles.head_seeds(inputs, at.group, ways)
    slot = sizes.slot(at)
    top, total, acc = (scratch[name].at[slot] for name in ("top", "total", "acc"))

    @pl.when(at.chunk == 0)
    def _():
        top[...] = jnp.full(top.shape, MASKED, jnp.float32)
        total[...] = jnp.zeros(total.shape, jnp.float32)
        acc[...] = jnp.zeros(acc.shape, jnp.float32)

    def absorb(tile: Tile):
        scores = tile.scores(softmax, query, column)
        old = top[...]
        new = jnp.maximum(old, jnp.max(scores, axis=0, keepdims=True))
        # Sums so far are relative to the old maximum: shrunk to the new.
        shrink = jnp.exp2((old - new) * softmax.to_base_2())
        p = jnp.exp2((scores - new) * softmax.to_base_2())
        top[...] = new
        total[...] = total[...] * shrink + jnp.sum(p, axis=0, keepdims=True)
        factors = tile.factors(softmax, seeds, at.block * sizes.rows)
        if factors is not None:
            p = p * factors
        more = head_products(tile.value.T, p.astype(tile.value.dtype), ways)
        acc[...] = tiles.times_rows(acc[...], shrink, ways) + more

    _for_each_tile(inputs, scratch, softmax, sizes, at, absorb)

    @pl.when(at.chunk == sizes.chunks - 1)
    def _():
        tiles.write_rows(softmax, outputs, acc[...], total[...], top[...])


def forward(softmax: Softmax, inputs: Inputs) -> tuple[Array, Array]:
    """(output `[b, n, F]`, log-sum-exp float32 `[b, groups, ways, n]`)."""
    sizes = _Sizes.of(softmax, inputs)
    shape = (sizes.examples, sizes.groups, softmax.ways, inputs.query.shape[1])
    lse = jax.ShapeDtypeStruct(shape, jnp.float32)
    outputs = {
        "output": sizes.of_rows(like(inputs.query), at_last=True),
        "lse": sizes.of_heads(lse, at_last=True),
    }
    per_row = pltpu.VMEM((sizes.slots, 1, softmax.ways * sizes.rows), jnp.float32)
    acc = pltpu.VMEM((sizes.slots, softmax.width, sizes.rows), jnp.float32)
    scratch = _scratch(softmax, sizes) | {"top": per_row, "total": per_row, "acc": acc}
    parts = _inputs(softmax, sizes, inputs)
    name = "all_keys_forward"
    results = _run(softmax, sizes, _forward, name, parts, outputs, scratch, 2)
    return results["output"], results["lse"]


def _backward(inputs, outputs, scratch, *, softmax: Softmax, sizes: _Sizes):
    at = sizes.here()
    of_rows = tiles.read_rows(softmax, inputs)
    seeds = tiles.head_seeds(inputs, at.group, softmax.ways)
    d_query = scratch["query"].at[sizes.slot(at)]
    column = scratch["column"].at[at.group] if "column" in scratch else None
    d_bias = outputs.get("bias")

    @pl.when(at.chunk == 0)
    def _():
        d_query[...] = jnp.zeros(d_query.shape, jnp.float32)
        if column is not None:
            column[...] = jnp.zeros(column.shape, jnp.float32)

    # Of more than one block of rows; else the gradients of keys are written at once.
    slot = 0 if sizes.by_group else at.group
    sums = [scratch[name].at[slot] for name in _OF_KEYS if name in scratch]

    @pl.when(at.block == 0)
    def _():
        for total in sums:
            total[...] = jnp.zeros(total.shape, jnp.float32)

    if d_bias is not None:
        # Those of all examples, one after the other.
        @pl.when((at.example == 0) & (at.chunk == 0) & (at.block == 0))
        def _():
            d_bias[...] = jnp.zeros(d_bias.shape, jnp.float32)

    def add(tile: Tile):
        factors = tile.factors(softmax, seeds, at.block * sizes.rows)
        of_tile = tiles.gradients(softmax, tile, of_rows, factors)
        d_query[...] += of_tile.query
        if column is not None:
            tile.add_label_gradient(softmax, column, of_tile.scores)
        if d_bias is not None:
            tile.add_bias_gradient(softmax, d_bias, of_tile.scores)
        for ref, total, gradient in zip(
            (outputs[name][tile.number] for name in _OF_KEYS),
            sums or (None, None),
            (of_tile.key * softmax.scale, of_tile.value),
            strict=True,
        ):
            if total is None:
                ref[...] = gradient.astype(ref.dtype)
            else:
                total[...] += gradient

    _for_each_tile(inputs, scratch, softmax, sizes, at, add)

    @pl.when(at.chunk == sizes.chunks - 1)
    def _():
        total = d_query[...]
        if column is not None:
            for name in ("embedding", "label_bias"):
                ref = outputs[name]
                ref[at.group] = jnp.zeros(ref.shape[1:], ref.dtype)
            total = total + tiles.add_table_gradients(
                softmax, inputs, outputs, at.group, column[...], of_rows.query
            )
        tiles.write_query_gradient(softmax, outputs, total)

    @pl.when(at.block == sizes.blocks - 1)
    def _():
        for name, total in zip(_OF_KEYS, sums, strict=False):
            ref = outputs[name][-1]
            ref[...] = total[...].astype(ref.dtype)


def backward(
    softmax: Softmax, inputs: Inputs, d_output: Array, lse: Array, delta: Array
) -> Inputs:
    """Gradients of the inputs; None for integers.

    Args:
      softmax: static choices.
      inputs: those of the forward pass.
      d_output: `[b, n, F]`.
      lse: of the forward pass, `[b, groups, ways, n]`.
      delta: of `row_deltas`, `[b, groups, ways, n]`.
    """
    sizes = _Sizes.of(softmax, inputs)
    parts = _inputs(softmax, sizes, inputs) | {
        "d_output": sizes.of_rows(d_output),
        "lse": sizes.of_heads(lse),
        "delta": sizes.of_heads(delta),
    }

    def of_keys(arrays):
        return [sizes.of_keys(i, like(x), at_last=True) for i, x in enumerate(arrays)]

    keys, values = zip(*inputs.arrays, strict=True)
    outputs = {
        "query": sizes.of_rows(like(inputs.query), at_last=True),
        "keys": of_keys(keys),
        "values": of_keys(values),
    }
    scratch = _scratch(softmax, sizes)
    shape = (sizes.slots, softmax.width, sizes.rows)
    scratch["query"] = pltpu.VMEM(shape, jnp.float32)
    if sizes.blocks > 1:
        sums = 1 if sizes.by_group else sizes.groups
        total = pltpu.VMEM((sums, sizes.keys[-1], softmax.width), jnp.float32)
        scratch |= dict.fromkeys(_OF_KEYS, total)
    if inputs.bias is not None:
        outputs["bias"] = sizes.of_strip(like(inputs.bias))
    lanes = softmax.ways * sizes.rows
    lead = (sizes.groups,)
    calls.add_table_outputs(softmax, inputs, outputs, scratch, lanes, lead)
    name = "all_keys_backward"
    results = _run(softmax, sizes, _backward, name, parts, outputs, scratch, 5)
    arrays = tuple(zip(results["keys"], results["values"], strict=True))
    return calls.finished(softmax, inputs, results, arrays)
