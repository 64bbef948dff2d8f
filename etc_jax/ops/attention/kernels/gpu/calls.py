"""Which part of each array a program of a kernel has, and what the kernels cost."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from etc_jax.ops.attention.kernels.gpu import kernels
from etc_jax.ops.attention.kernels.pieces import InlinePiece, RulePiece, Vectors
from etc_jax.ops.blocking import like

Array = jax.Array
Piece = RulePiece | InlinePiece

# Programs that keep a large GPU busy: 132 multiprocessors, some programs on each.
_PROGRAMS = 1024


class Options(NamedTuple):
    """Static choices. The sizes are the fastest of those tried on an H100.

    Attributes:
      scale: of the logits.
      dropout_rate: of probabilities.
      pieces: rules of one or two sets of keys.
      rows, keys: of a tile, powers of two.
      num_warps, num_stages: of a program; see Triton.
      interpret: run as plain operations, on any device.
    """

    scale: float
    dropout_rate: float
    pieces: tuple[Piece, ...]
    rows: int = 64
    keys: int = 64
    num_warps: int = 4
    num_stages: int = 3
    interpret: bool = False

    def tile(self) -> kernels.TileOptions:
        """What the kernels read."""
        return kernels.TileOptions(self.scale, self.dropout_rate, self.rows, self.keys)


class Inputs(NamedTuple):
    """Padded to whole tiles.

    Attributes:
      query: `[b, n, h, d]`.
      arrays: (keys, values) of each piece, `[b, k, h, d]` each.
      t: logits of labels `[b, h, n, V]`, or None.
      rows: integers of the rows.
      pieces: integers of the keys of each piece.
      seeds: uint32 `[b, h, pieces]` of dropout, or None.
    """

    query: Array
    arrays: tuple[tuple[Array, Array], ...]
    t: Array | None
    rows: Vectors
    pieces: tuple[Vectors, ...]
    seeds: Array | None


class OfRows(NamedTuple):
    """What the backward pass knows of the rows.

    Attributes:
      d_output: `[b, n, h, d]`.
      lse: log-sum-exp of the logits, float32 `[b, h, n]`.
      delta: see `softmax.row_deltas`, float32 `[b, h, n]`.
    """

    d_output: Array
    lse: Array
    delta: Array


def forward(options: Options, inputs: Inputs) -> tuple[Array, Array]:
    """(output `[b, n, h, d]`, log-sum-exp `[b, h, n]`)."""
    query = inputs.query
    b, n, h, _ = query.shape
    lse = jax.ShapeDtypeStruct((b, h, n), jnp.float32)
    results = _of_rows(
        options,
        inputs,
        kernels.forward,
        {},
        {"output": (like(query), _block), "lse": (lse, _block_of_head)},
    )
    return results["output"], results["lse"]


def row_gradients(
    options: Options, inputs: Inputs, of_rows: OfRows
) -> tuple[Array, Array | None]:
    """Gradients of the query `[b, n, h, d]` and of `t` `[b, h, n, V]`, or None."""
    more = {
        "d_output": (of_rows.d_output, _block),
        "lse": (of_rows.lse, _block_of_head),
        "delta": (of_rows.delta, _block_of_head),
    }
    outputs = {"query": (like(inputs.query), _block)}
    if inputs.t is not None:
        # Not every label has a key in each row: what is not written stays 0.
        more["d_t"] = jnp.zeros_like(inputs.t), _block_of_head
        outputs["t"] = like(inputs.t), _block_of_head
    results = _of_rows(options, inputs, kernels.row_gradients, more, outputs)
    return results["query"], results.get("t")


def _of_rows(options: Options, inputs: Inputs, kernel, more, outputs) -> dict:
    """Calls a kernel whose programs have a block of rows each.

    Args:
      options: static choices.
      inputs: as they are.
      kernel: of `kernels`.
      more: inputs besides, {name: (array, spec function of it and the rows)}.
      outputs: {name: (shape, the same)}; "t" takes the place of the input "d_t".
    """
    size = options.rows
    pieces, piece_specs = [], []
    for (key, value), ints in zip(inputs.arrays, inputs.pieces, strict=True):
        pieces.append({"key": key, "value": value, "tokens": ints.ints})
        specs = {"key": _whole(key), "value": _whole(value)}
        piece_specs.append(specs | {"tokens": _tokens(ints.ints)})
    entries = {
        "query": (inputs.query, _block),
        "t": (inputs.t, _block_of_head),
        "seeds": (inputs.seeds, lambda x, _: _whole_of_head(x)),
    }
    arrays, specs = _present(entries | more, size)
    arrays |= {"rows": inputs.rows.ints, "pieces": tuple(pieces)}
    specs |= {"rows": _tokens(inputs.rows.ints), "pieces": tuple(piece_specs)}
    aliases = {}
    if "t" in outputs:
        names = [path[0].key for path, _ in jax.tree.leaves_with_path(arrays)]
        aliases[names.index("d_t")] = sorted(outputs).index("t")
    b, n, h, _ = inputs.query.shape
    vectors = {"rows": inputs.rows.without_ints()}
    vectors["pieces"] = [ints.without_ints() for ints in inputs.pieces]
    pairs = sum(
        _pairs(options, piece, n, key.shape[1])
        for piece, (key, _) in zip(options.pieces, inputs.arrays, strict=True)
    )
    return _call(
        functools.partial(kernel, pieces=options.pieces, vectors=vectors),
        options,
        (n // size, h, b),
        (arrays, specs),
        _present(outputs, size),
        pairs,
        aliases,
    )


def key_gradients(
    options: Options, inputs: Inputs, of_rows: OfRows, number: int
) -> tuple[Array, Array]:
    """Gradients of keys and values of piece `number`, `[b, k, h, d]` each."""
    (key, value), ints = inputs.arrays[number], inputs.pieces[number]
    piece = options.pieces[number]
    b, n, h, _ = inputs.query.shape
    blocks = key.shape[1] // options.keys
    # Few keys that many rows see: the rows are split, and their sums added.
    tiles = n // options.rows if piece.radius is None else 1
    splits = max(1, min(tiles // 4, _PROGRAMS // (blocks * h * b)))

    def whole(x, _):
        return _whole(x)

    def whole_of_head(x, _):
        return _whole_of_head(x)

    def block_of_split(x, size):
        return _block(x, size, splits)

    seed = None
    if inputs.seeds is not None:
        seed = inputs.seeds[..., number : number + 1]
    entries = {
        "key": (key, block_of_split),
        "value": (value, block_of_split),
        "query": (inputs.query, whole),
        "d_output": (of_rows.d_output, whole),
        "t": (inputs.t, whole_of_head),
        "lse": (of_rows.lse, whole_of_head),
        "delta": (of_rows.delta, whole_of_head),
        "seed": (seed, whole_of_head),
    }
    arrays, specs = _present(entries, options.keys)
    arrays |= {"rows": inputs.rows.ints, "tokens": ints.ints}
    specs |= {"rows": _tokens(inputs.rows.ints), "tokens": _tokens(ints.ints)}

    def of_split(x, size):
        return pl.BlockSpec(
            (None, None, size, None, x.shape[4]),
            lambda i, h, b: (i % splits, b, i // splits, h, 0),
        )

    # Of each split: [splits, b, k, h, d].
    dtype = key.dtype if splits == 1 else jnp.float32
    shape = jax.ShapeDtypeStruct((splits, *key.shape), dtype)
    names = ("key", "value")
    vectors = {"rows": inputs.rows.without_ints(), "keys": ints.without_ints()}
    results = _call(
        functools.partial(
            kernels.key_gradients, piece=piece, vectors=vectors, splits=splits
        ),
        options,
        (blocks * splits, h, b),
        (arrays, specs),
        _present(dict.fromkeys(names, (shape, of_split)), options.keys),
        _pairs(options, piece, n, key.shape[1]),
        {},
    )
    if splits == 1:
        return tuple(results[name][0] for name in names)
    return tuple(results[name].sum(axis=0).astype(key.dtype) for name in names)


# Products of a tile: rows times keys times width, each 2 FLOPs.
_PRODUCTS = {
    kernels.forward: 2,
    kernels.row_gradients: 3,
    kernels.key_gradients: 4,
}


def _call(body, options: Options, grid, inputs, outputs, pairs: int, aliases) -> dict:
    """Runs a kernel.

    Args:
      body: the kernel with all that is static but for the options of a tile.
      options: static choices.
      grid: of its programs; the last two axes are heads and batch.
      inputs: (arrays, specs).
      outputs: (shapes, specs).
      pairs: of rows and keys that one head of one example works on.
      aliases: number of an input -> number of the output in its place.
    """
    arrays, specs = inputs
    shapes, out_specs = outputs
    _, h, b = grid
    width = arrays["query"].shape[-1]
    moved = jax.tree.leaves((arrays, shapes))
    cost = pl.CostEstimate(
        flops=2 * _PRODUCTS[body.func] * b * h * pairs * width,
        transcendentals=b * h * pairs,
        bytes_accessed=sum(math.prod(x.shape) * x.dtype.itemsize for x in moved),
    )
    return pl.pallas_call(
        functools.partial(body, options=options.tile()),
        grid=grid,
        in_specs=[specs],
        out_shape=shapes,
        out_specs=out_specs,
        input_output_aliases=aliases,
        interpret=options.interpret,
        name=f"attention_{body.func.__name__}",
        cost_estimate=cost,
        compiler_params=plgpu.CompilerParams(
            num_warps=options.num_warps, num_stages=options.num_stages
        ),
    )(arrays)


def _pairs(options: Options, piece: Piece, num_rows: int, num_keys: int) -> int:
    """Pairs in the tiles of one head of one example."""
    r, k = options.rows, options.keys
    count = 0
    for block in range(num_rows // r):
        first, end = kernels.tiles(piece, block, r, k, num_keys)
        count += end - first
    return count * r * k


# --- parts of arrays ------------------------------------------------------------------


def _present(
    entries: Mapping[str, tuple[Any, Callable]], size: int
) -> tuple[dict, dict]:
    """(arrays, specs) of those that are not None; a spec is of (array, block size)."""
    present = {name: entry for name, entry in entries.items() if entry[0] is not None}
    return (
        {name: x for name, (x, _) in present.items()},
        {name: spec_fn(x, size) for name, (x, spec_fn) in present.items()},
    )


def _whole(x: Array) -> pl.BlockSpec:
    """All rows of one head of an example, of `[b, n, h, d]`."""
    shape = (None, x.shape[1], None, x.shape[3])
    return pl.BlockSpec(shape, lambda i, h, b: (b, 0, h, 0))


def _block(x: Array, size: int, every: int = 1) -> pl.BlockSpec:
    """A program's part of them; `every` programs have the same."""
    shape = (None, size, None, x.shape[3])
    return pl.BlockSpec(shape, lambda i, h, b: (b, i // every, h, 0))


def _whole_of_head(x: Array) -> pl.BlockSpec:
    """All rows of one head of an example, of `[b, h, n, ...]`."""
    zeros = (0,) * (x.ndim - 2)
    return pl.BlockSpec((None, None, *x.shape[2:]), lambda i, h, b: (b, h, *zeros))


def _block_of_head(x: Array, size: int) -> pl.BlockSpec:
    """A program's part of them."""
    rest = x.shape[3:]
    zeros = (0,) * len(rest)
    return pl.BlockSpec((None, None, size, *rest), lambda i, h, b: (b, h, i, *zeros))


def _tokens(ints: tuple[Array, ...]) -> tuple[pl.BlockSpec, ...]:
    """Of all tokens of an example."""
    return tuple(pl.BlockSpec((None, x.shape[1]), lambda i, h, b: (b, 0)) for x in ints)
