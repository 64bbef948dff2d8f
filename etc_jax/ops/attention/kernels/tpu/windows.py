"""Rows over a window of keys, and over keys that all of them see, in one softmax.

A program has 128 rows and a group of heads. Their logits are in VMEM at once, so that
a maximum and a sum are enough. Keys of a window come as blocks of 128; of the outermost
ones only what the window reaches is used.
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
    round_up,
)
from etc_jax.ops.attention.kernels.tpu.tiles import Pairs, Softmax, Tile
from etc_jax.ops.blocking import like, pad_axis

Array = jax.Array

# A register has 16 rows of bfloat16: windows begin and end with a whole one.
_ROWS = 16

# Of all rows of an example.
_SUMS = ("side_key", "side_value", "embedding", "label_bias", "bias", "side_bias")


def _reach(softmax: Softmax, n: int) -> int:
    """Keys before a block of rows, and after it, of n in all."""
    return round_up(max(1, min(softmax.pieces[0].radius, n)), _ROWS)


def span(softmax: Softmax, rows: int, keys: int) -> strips.Span:
    """Of the strips of windows of so many rows and keys, with padding."""
    del keys
    reach = _reach(softmax, rows)
    return strips.Span(reach, LANES + 2 * reach)


class _Sizes(NamedTuple):
    """Of a call; static.

    Attributes:
      examples: b.
      blocks: of 128 rows.
      groups: of heads.
      width: features of a group.
      reach: keys before a block of rows, and after it.
      side: keys of the other piece, or 0.
    """

    examples: int
    blocks: int
    groups: int
    width: int
    reach: int
    side: int

    @classmethod
    def of(cls, softmax: Softmax, inputs: Inputs) -> _Sizes:
        b, n, features = inputs.query.shape
        width, reach = softmax.width, _reach(softmax, n)
        side = inputs.arrays[1][0].shape[1] if len(inputs.arrays) > 1 else 0
        return cls(b, n // LANES, features // width, width, reach, side)

    @property
    def wings(self) -> int:
        """Blocks of keys to each side of that of the rows."""
        return -(-self.reach // LANES)

    @property
    def window(self) -> int:
        """Keys of a window."""
        return LANES + 2 * self.reach

    def cut(self, wing: int) -> slice:
        """What the window has of the block that is so many after that of the rows."""
        first = max(-self.reach - wing * LANES, 0)
        return slice(first, min(LANES + self.reach - wing * LANES, LANES))

    def cuts(self) -> list[tuple[int, slice]]:
        """(wing, its slice) of the blocks of a window."""
        return [(w, self.cut(w)) for w in range(-self.wings, self.wings + 1)]


def _inputs(softmax: Softmax, sizes: _Sizes, inputs: Inputs, steps: int) -> dict:
    """Parts of what both passes read; `steps` of the grid's second axis."""
    every = sizes.examples * steps * sizes.groups
    last, wings = sizes.blocks - 1, sizes.wings
    block = (None, LANES, sizes.width)

    def window(x):
        # Where there is no such block another one is read, and masked.
        return tuple(
            Part(x, block, lambda b, i, g, w=w: (b, jnp.clip(i + w, 0, last), g), every)
            for w, _ in sizes.cuts()
        )

    def ints(x, at):
        shape = (None, x.shape[1], LANES)
        return Part(x, shape, lambda b, i, g: (b, 0, at(i)), sizes.examples * steps)

    def padded(x):
        return pad_axis(x, 2, wings * LANES, wings * LANES)

    def at_wing(w):
        return lambda i: jnp.minimum(i, last) + w + wings

    (key, value), *side = inputs.arrays
    key_ints = padded(inputs.keys[0])
    parts = {
        "query": Part(
            inputs.query, block, lambda b, i, g: (b, jnp.minimum(i, last), g), every
        ),
        "keys": window(key),
        "values": window(value),
        "rows": ints(inputs.rows, lambda i: jnp.minimum(i, last)),
        "key_ints": tuple(ints(key_ints, at_wing(w)) for w, _ in sizes.cuts()),
    }
    for array in side:
        shape = (None, sizes.side, sizes.width)
        of_side = (Part(x, shape, lambda b, i, g: (b, 0, g), every) for x in array)
        parts["side_key"], parts["side_value"] = of_side
        shape = (None, *inputs.keys[1].shape[1:])
        parts["side_ints"] = Part(
            inputs.keys[1], shape, lambda b, i, g: (b, 0, 0), sizes.examples
        )
    if inputs.bias is not None:
        parts["bias"] = calls.whole(inputs.bias)
    if inputs.side_bias is not None:
        parts["side_bias"] = calls.whole(inputs.side_bias.exact(softmax.ways))
        lane, start = inputs.side_bias[1:]
        parts["side_lane"] = ints(lane, lambda i: jnp.minimum(i, last))
        parts["side_start"] = calls.scalars(start[:, None])
    return parts | calls.of_table(softmax, inputs, every)


def _scratch(softmax: Softmax, sizes: _Sizes) -> dict:
    counts = (sizes.window, sizes.side)[: len(softmax.pieces)]
    return {
        "pairs": [
            calls.pairs_scratch(softmax, i, keys, LANES)
            for i, keys in enumerate(counts)
        ]
    }


def _read_tiles(softmax: Softmax, sizes: _Sizes, inputs, scratch, at) -> list[Tile]:
    """The window and the other keys of a program (block, group) of an example."""
    block, group = at

    def window(refs):
        parts = zip(refs, sizes.cuts(), strict=True)
        return jnp.concatenate([ref[cut, :] for ref, (_, cut) in parts])

    pairs = [Pairs(*refs) for refs in scratch["pairs"]]
    keys, values = window(inputs["keys"]), window(inputs["values"])
    start = block * LANES - sizes.reach
    bias = strips.Strip(inputs["bias"].at[group], 0) if "bias" in inputs else None
    out = [Tile(0, keys, values, pairs[0], -sizes.reach, start, bias)]
    if sizes.side:
        arrays = (inputs[name][...] for name in ("side_key", "side_value"))
        bias = None
        if "side_bias" in inputs:
            bias = strips.BlockStrip(
                inputs["side_bias"].at[group],
                inputs["side_start"][0, block],
                inputs["side_lane"][:1],
            )
        out.append(Tile(1, *arrays, pairs[1], 0, 0, bias))
    return out


def _fill_pairs(softmax: Softmax, sizes: _Sizes, inputs, scratch) -> None:
    """What the rules say, once for all heads."""
    of_rows = tiles.rows(softmax.row_vectors, inputs["rows"][...])
    parts = zip(inputs["key_ints"], sizes.cuts(), strict=True)
    ints = [jnp.concatenate([ref[...].T[cut] for ref, (_, cut) in parts])]
    if sizes.side:
        ints.append(inputs["side_ints"][...].T)
    for number, of_keys in enumerate(ints):
        of_keys = tiles.columns(softmax.key_vectors[number], of_keys)
        pairs = Pairs(*scratch["pairs"][number])
        pairs.fill(softmax.pieces[number], of_rows, of_keys)


def _forward(inputs, outputs, scratch, *, softmax: Softmax, sizes: _Sizes):
    block, group = (pl.program_id(axis) for axis in (1, 2))
    ways = softmax.ways

    @pl.when(group == 0)
    def _():
        _fill_pairs(softmax, sizes, inputs, scratch)

    query = heads_apart(inputs["query"][...], ways)
    column = tiles.label_column(inputs, query, ways)
    of_keys = _read_tiles(softmax, sizes, inputs, scratch, (block, group))
    scores = [tile.scores(softmax, query, column) for tile in of_keys]
    top = functools.reduce(
        jnp.maximum, [jnp.max(x, axis=0, keepdims=True) for x in scores]
    )
    seeds = tiles.head_seeds(inputs, group, ways)
    total, acc = 0.0, 0.0
    for tile, x in zip(of_keys, scores, strict=True):
        p = jnp.exp2((x - top) * softmax.to_base_2())
        total = total + jnp.sum(p, axis=0, keepdims=True)
        factors = tile.factors(softmax, seeds, block * LANES)
        if factors is not None:
            p = p * factors
        acc = acc + head_products(tile.value.T, p.astype(tile.value.dtype), ways)
    tiles.write_rows(softmax, outputs, acc, total, top)


def forward(softmax: Softmax, inputs: Inputs) -> tuple[Array, Array]:
    """(output `[b, n, F]`, log-sum-exp float32 `[b, groups, ways, n]`)."""
    sizes = _Sizes.of(softmax, inputs)
    grid = (sizes.examples, sizes.blocks, sizes.groups)
    shape = (sizes.examples, sizes.groups, softmax.ways, inputs.query.shape[1])
    outputs = {
        "output": Part(
            like(inputs.query),
            (None, LANES, sizes.width),
            lambda b, i, g: (b, i, g),
            math.prod(grid),
        ),
        "lse": Part(
            jax.ShapeDtypeStruct(shape, jnp.float32),
            (None, None, softmax.ways, LANES),
            lambda b, i, g: (b, g, 0, i),
            math.prod(grid),
        ),
    }
    results = calls.call(
        functools.partial(_forward, softmax=softmax, sizes=sizes),
        "windows_forward",
        softmax.interpret,
        grid,
        _inputs(softmax, sizes, inputs, sizes.blocks),
        outputs,
        _scratch(softmax, sizes),
        **_work(softmax, sizes, 2),
    )
    return results["output"], results["lse"]


def _work(softmax: Softmax, sizes: _Sizes, products: int) -> dict[str, int]:
    """FLOPs of so many products of tiles, and exponentials."""
    heads = sizes.examples * sizes.groups * softmax.ways
    pairs = heads * sizes.blocks * LANES * (sizes.window + sizes.side)
    width = sizes.width // softmax.ways
    return {"flops": 2 * products * pairs * width, "exponentials": pairs}


def _backward(inputs, outputs, scratch, *, softmax: Softmax, sizes: _Sizes):
    block, group = (pl.program_id(axis) for axis in (1, 2))
    span = 2 * sizes.wings + 1

    @pl.when(block == 0)
    def _():
        for name in ("key", "value"):
            # Blocks that rows before the first one would have begun.
            first = (2 * sizes.wings, LANES, sizes.width)
            scratch[name][group, : 2 * sizes.wings] = jnp.zeros(first, jnp.float32)
        for name in _SUMS:
            if name in outputs:
                ref = outputs[name]
                ref[group] = jnp.zeros(ref.shape[1:], ref.dtype)

    real = block < sizes.blocks

    @pl.when(real & (group == 0))
    def _():
        _fill_pairs(softmax, sizes, inputs, scratch)

    @pl.when(real)
    def _():
        where = (block, group)
        _add_gradients(inputs, outputs, scratch, softmax, sizes, where)

    @pl.when(block >= sizes.wings)
    def _():
        # No later row sees this one.
        done = jax.lax.rem(block, span)
        factors = {"key": softmax.scale, "value": 1.0}
        for name, factor in factors.items():
            ref = outputs[name]
            ref[...] = (scratch[name][group, done] * factor).astype(ref.dtype)


def _add_gradients(inputs, outputs, scratch, softmax, sizes: _Sizes, where):
    """Those of one block of rows."""
    block, group = where
    ways, span = softmax.ways, 2 * sizes.wings + 1
    of_rows = tiles.read_rows(softmax, inputs)
    seeds = tiles.head_seeds(inputs, group, ways)
    total = scratch.get("column")
    if total is not None:
        total[...] = jnp.zeros(total.shape, total.dtype)
    d_query = 0.0
    for tile in _read_tiles(softmax, sizes, inputs, scratch, (block, group)):
        factors = tile.factors(softmax, seeds, block * LANES)
        of_tile = tiles.gradients(softmax, tile, of_rows, factors)
        d_query = d_query + of_tile.query
        if total is not None:
            tile.add_label_gradient(softmax, total, of_tile.scores)
        name = "side_bias" if tile.number else "bias"
        if name in outputs:
            total_bias = outputs[name].at[group]
            tile.add_bias_gradient(softmax, total_bias, of_tile.scores)
        if tile.number:
            outputs["side_key"][group] += of_tile.key
            outputs["side_value"][group] += of_tile.value
            continue
        for name, window in (("key", of_tile.key), ("value", of_tile.value)):
            first = 0
            for wing, cut in sizes.cuts():
                ref, count = scratch[name], cut.stop - cut.start
                slot = jax.lax.rem(block + wing + sizes.wings, span)
                part = window[first : first + count]
                first += count
                if wing < sizes.wings:
                    ref[group, slot, cut] += part
                else:
                    # The first rows that see the block; their windows begin with it.
                    ref[group, slot, cut] = part
                    if count < LANES:
                        rest = jnp.zeros((LANES - count, sizes.width), jnp.float32)
                        ref[group, slot, count:] = rest
    if total is not None:
        d_query = d_query + tiles.add_table_gradients(
            softmax, inputs, outputs, group, total[...], of_rows.query
        )
    tiles.write_query_gradient(softmax, outputs, d_query)


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
    # Blocks of keys are finished some steps after the rows that have their index.
    steps = sizes.blocks + sizes.wings
    grid = (sizes.examples, steps, sizes.groups)
    every, last = math.prod(grid), sizes.blocks - 1
    block = (None, LANES, sizes.width)
    per_head = (None, None, softmax.ways, LANES)
    parts = _inputs(softmax, sizes, inputs, steps)
    parts["d_output"] = parts["query"]._replace(array=d_output)
    for name, x in (("lse", lse), ("delta", delta)):
        parts[name] = Part(
            x, per_head, lambda b, i, g: (b, g, 0, jnp.minimum(i, last)), every
        )

    def of_query(b, i, g):
        # After the last block of rows its part stays the same: no other is written.
        return b, jnp.minimum(i, last), jnp.where(i > last, sizes.groups - 1, g)

    def of_keys(b, i, g):
        # Before the first block is finished no part is written.
        return b, jnp.maximum(i - sizes.wings, 0), jnp.where(i < sizes.wings, 0, g)

    (key, value), *side = inputs.arrays
    outputs = {
        "query": Part(like(inputs.query), block, of_query, every),
        "key": Part(like(key), block, of_keys, every),
        "value": Part(like(value), block, of_keys, every),
    }
    if side:
        shape = (sizes.groups, sizes.side, sizes.width)
        for name in ("side_key", "side_value"):
            outputs[name] = calls.per_example(sizes.examples, shape)
    if inputs.bias is not None:
        outputs["bias"] = calls.per_example(sizes.examples, inputs.bias.shape)
    if inputs.side_bias is not None:
        shape = (*inputs.side_bias.strips.shape[:2], LANES)
        outputs["side_bias"] = calls.per_example(sizes.examples, shape)
    scratch = _scratch(softmax, sizes)
    slots = (sizes.groups, 2 * sizes.wings + 1, LANES, sizes.width)
    scratch |= {name: pltpu.VMEM(slots, jnp.float32) for name in ("key", "value")}
    lanes = softmax.ways * LANES
    calls.add_table_outputs(softmax, inputs, outputs, scratch, lanes)
    results = calls.call(
        functools.partial(_backward, softmax=softmax, sizes=sizes),
        "windows_backward",
        softmax.interpret,
        grid,
        parts,
        outputs,
        scratch,
        **_work(softmax, sizes, 5),
    )
    arrays = [(results["key"], results["value"])]
    if side:
        arrays.append(
            tuple(
                calls.joined_groups(results[name] * factor).astype(key.dtype)
                for name, factor in (("side_key", softmax.scale), ("side_value", 1.0))
            )
        )
    return calls.finished(softmax, inputs, results, tuple(arrays))
