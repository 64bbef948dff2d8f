"""Few rows over all keys of one or two pieces, in one online softmax.

All rows are in each program, with a group of heads. The first piece is the rows' own
side; the second one, if there is one, is as long as the input and comes in chunks, one
after the other. So the gradients of a chunk of keys are finished with it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from etc_jax.ops.attention.kernels.tpu import calls, tiles
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

_CHUNK = 256


class _Call:
    """Parts of a call.

    Attributes:
      softmax: static choices.
      grid: (examples, chunks, groups).
      rows: q.
      counts: keys in a tile of each piece.
    """

    def __init__(self, softmax: Softmax, inputs: Inputs):
        """Of padded inputs."""
        b, self.rows, features = inputs.query.shape
        lengths = [key.shape[1] for key, _ in inputs.arrays]
        self.counts, chunks = lengths[:1], 1
        if len(lengths) > 1:
            chunk = _CHUNK if lengths[1] % _CHUNK == 0 else LANES
            self.counts, chunks = [lengths[0], chunk], lengths[1] // chunk
        self.softmax, self._arrays = softmax, inputs
        self.grid = (b, chunks, features // softmax.width)

    def of_rows(self, x) -> Part:
        """All rows of a group, of `[b, q, F]`, each time."""
        b, chunks, groups = self.grid
        block = (None, self.rows, self.softmax.width)
        return Part(x, block, lambda b, j, g: (b, 0, g), b * chunks * groups)

    def of_heads(self, x) -> Part:
        """The same of `[b, groups, ways, q]`."""
        b, chunks, groups = self.grid
        block = (None, None, self.softmax.ways, self.rows)
        return Part(x, block, lambda b, j, g: (b, g, 0, 0), b * chunks * groups)

    def at_last(self, part: Part) -> Part:
        """A part that is written with the last chunk: before, it is that of group 0."""
        b, chunks, groups = self.grid

        def index(b, j, g):
            return part.index(b, 0, jnp.where(j == chunks - 1, g, 0))

        return part._replace(index=index, fetches=b * groups)

    def of_keys(self, number: int, x) -> Part:
        """Keys of a group, of `[b, k, F]`."""
        b, chunks, groups = self.grid
        block = (None, self.counts[number], self.softmax.width)
        if number:
            return Part(x, block, lambda b, j, g: (b, j, g), b * chunks * groups)

        def index(b, j, g):
            # After the first chunk the part stays the same: no other is moved.
            return b, 0, jnp.where(j == 0, g, groups - 1)

        return Part(x, block, index, b * groups)

    def inputs(self) -> dict:
        """Parts of what both passes read."""
        x, (b, chunks, groups) = self._arrays, self.grid
        ints = []
        for number, array in enumerate(x.keys):
            block = (None, array.shape[1], self.counts[number])
            of_chunk = (
                (lambda b, j, g: (b, 0, j)) if number else lambda b, j, g: (b, 0, 0)
            )
            ints.append(Part(array, block, of_chunk, b * chunks))
        block = (None, *x.rows.shape[1:])
        return {
            "query": self.of_rows(x.query),
            "keys": [self.of_keys(i, key) for i, (key, _) in enumerate(x.arrays)],
            "values": [self.of_keys(i, value) for i, (_, value) in enumerate(x.arrays)],
            "rows": Part(x.rows, block, lambda b, j, g: (b, 0, 0), b),
            "key_ints": ints,
        } | calls.of_table(self.softmax, x, b * chunks * groups)

    def scratch(self) -> dict:
        """Of masks and labels."""
        return {
            "pairs": [
                calls.pairs_scratch(self.softmax, i, keys, self.rows)
                for i, keys in enumerate(self.counts)
            ]
        }

    def run(self, body, name: str, parts, outputs, scratch, products: int) -> dict:
        """Runs a kernel with so many products of tiles."""
        b, _, groups = self.grid
        keys = sum(key.shape[1] for key, _ in self._arrays.arrays)
        pairs = b * groups * self.softmax.ways * self.rows * keys
        width = self.softmax.width // self.softmax.ways
        return calls.call(
            functools.partial(body, softmax=self.softmax, chunks=self.grid[1]),
            name,
            self.softmax,
            self.grid,
            parts,
            outputs,
            scratch,
            flops=2 * products * pairs * width,
            exponentials=pairs,
        )


def _for_each_tile(inputs, scratch, softmax: Softmax, program, fn) -> None:
    """Calls `fn` with the first piece at the first chunk, and with each chunk.

    Args:
      inputs: refs.
      scratch: refs.
      softmax: static choices.
      program: its indices, (example, chunk, group).
      fn: function of a `Tile`.
    """
    _, chunk, group = program
    for number in range(len(softmax.pieces)):
        pairs = Pairs(*scratch["pairs"][number])

        def fill(number=number, pairs=pairs):
            of_rows = tiles.rows(softmax.row_vectors, inputs["rows"][...])
            ints = inputs["key_ints"][number][...].T
            of_keys = tiles.columns(softmax.key_vectors[number], ints)
            pairs.fill(softmax.pieces[number], of_rows, of_keys)

        def use(number=number, pairs=pairs):
            key, value = (inputs[name][number][...] for name in ("keys", "values"))
            start = chunk * key.shape[0] if number else 0
            fn(Tile(number, key, value, pairs, 0, start))

        if number:
            pl.when(group == 0)(fill)
            use()
        else:
            pl.when((chunk == 0) & (group == 0))(fill)
            pl.when(chunk == 0)(use)


def _forward(inputs, outputs, scratch, *, softmax: Softmax, chunks: int):
    example, chunk, group = (pl.program_id(axis) for axis in range(3))
    ways = softmax.ways
    query = heads_apart(inputs["query"][...], ways)
    column = tiles.label_column(inputs, query, ways)
    seeds = tiles.head_seeds(inputs, example, group, ways)
    top, total, acc = (scratch[name].at[group] for name in ("top", "total", "acc"))

    @pl.when(chunk == 0)
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
        factors = tile.factors(softmax, seeds, 0)
        if factors is not None:
            p = p * factors
        more = head_products(tile.value.T, p.astype(tile.value.dtype), ways)
        acc[...] = tiles.times_rows(acc[...], shrink, ways) + more

    _for_each_tile(inputs, scratch, softmax, (example, chunk, group), absorb)

    @pl.when(chunk == chunks - 1)
    def _():
        tiles.write_rows(softmax, outputs, acc[...], total[...], top[...])


def forward(softmax: Softmax, inputs: Inputs) -> tuple[Array, Array]:
    """(output `[b, q, F]`, log-sum-exp float32 `[b, groups, ways, q]`)."""
    of_call = _Call(softmax, inputs)
    b, _, groups = of_call.grid
    shape = (b, groups, softmax.ways, of_call.rows)
    lse = jax.ShapeDtypeStruct(shape, jnp.float32)
    outputs = {
        "output": of_call.at_last(of_call.of_rows(like(inputs.query))),
        "lse": of_call.at_last(of_call.of_heads(lse)),
    }
    per_row = pltpu.VMEM((groups, 1, softmax.ways * of_call.rows), jnp.float32)
    acc = pltpu.VMEM((groups, softmax.width, of_call.rows), jnp.float32)
    scratch = of_call.scratch() | {"top": per_row, "total": per_row, "acc": acc}
    parts = of_call.inputs()
    name = "all_keys_forward"
    results = of_call.run(_forward, name, parts, outputs, scratch, 2)
    return results["output"], results["lse"]


def _backward(inputs, outputs, scratch, *, softmax: Softmax, chunks: int):
    example, chunk, group = (pl.program_id(axis) for axis in range(3))
    of_rows = tiles.read_rows(softmax, inputs)
    seeds = tiles.head_seeds(inputs, example, group, softmax.ways)
    d_query = scratch["query"].at[group]
    column = scratch["column"].at[group] if "column" in scratch else None

    @pl.when(chunk == 0)
    def _():
        d_query[...] = jnp.zeros(d_query.shape, jnp.float32)
        if column is not None:
            column[...] = jnp.zeros(column.shape, jnp.float32)

    def add(tile: Tile):
        factors = tile.factors(softmax, seeds, 0)
        of_tile = tiles.gradients(softmax, tile, of_rows, factors)
        d_query[...] += of_tile.query
        if column is not None:
            tile.add_label_gradient(softmax, column, of_tile.scores)
        key, value = (outputs[name][tile.number] for name in ("keys", "values"))
        key[...] = (of_tile.key * softmax.scale).astype(key.dtype)
        value[...] = of_tile.value.astype(value.dtype)

    _for_each_tile(inputs, scratch, softmax, (example, chunk, group), add)

    @pl.when(chunk == chunks - 1)
    def _():
        total = d_query[...]
        if column is not None:
            for name in ("embedding", "label_bias"):
                ref = outputs[name]
                ref[group] = jnp.zeros(ref.shape[1:], ref.dtype)
            total = total + tiles.add_table_gradients(
                softmax, inputs, outputs, group, column[...], of_rows.query
            )
        tiles.write_query_gradient(softmax, outputs, total)


def backward(
    softmax: Softmax, inputs: Inputs, d_output: Array, lse: Array, delta: Array
) -> Inputs:
    """Gradients of the inputs; None for integers.

    Args:
      softmax: static choices.
      inputs: those of the forward pass.
      d_output: `[b, q, F]`.
      lse: of the forward pass, `[b, groups, ways, q]`.
      delta: of `row_deltas`, `[b, groups, ways, q]`.
    """
    of_call = _Call(softmax, inputs)
    parts = of_call.inputs() | {
        "d_output": of_call.of_rows(d_output),
        "lse": of_call.of_heads(lse),
        "delta": of_call.of_heads(delta),
    }

    outputs = {
        "query": of_call.at_last(of_call.of_rows(like(inputs.query))),
        "keys": [of_call.of_keys(i, like(k)) for i, (k, _) in enumerate(inputs.arrays)],
        "values": [
            of_call.of_keys(i, like(v)) for i, (_, v) in enumerate(inputs.arrays)
        ],
    }
    scratch = of_call.scratch()
    groups, lanes = of_call.grid[2], softmax.ways * of_call.rows
    shape = (groups, softmax.width, of_call.rows)
    scratch["query"] = pltpu.VMEM(shape, jnp.float32)
    calls.add_table_outputs(softmax, inputs, outputs, scratch, lanes, (groups,))
    name = "all_keys_backward"
    results = of_call.run(_backward, name, parts, outputs, scratch, 5)
    arrays = tuple(zip(results["keys"], results["values"], strict=True))
    return calls.finished(softmax, inputs, results, arrays)
