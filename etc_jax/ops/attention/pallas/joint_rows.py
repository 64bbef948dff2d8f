"""Rows over one or two sets of keys in one softmax, as kernels for NVIDIA GPUs.

Long rows see a window of long keys and all global keys; global rows see all global and
all long keys (Ainslie et al. 2020, section 3.2). No logits are written to memory: the
backward pass works them out again from the saved log-sum-exp, once for the rows and
once for the keys.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from etc_jax.ops.attention.pallas import kernels
from etc_jax.ops.attention.pallas.pieces import InlinePiece, RulePiece, Vectors
from etc_jax.ops.attention.parts.softmax import dot, row_deltas
from etc_jax.types import LabelTable, MeshAxes

Array = jax.Array
Piece = RulePiece | InlinePiece

# The least that a product of matrices takes in a kernel.
_LEAST = 16
# Programs that keep a large GPU busy: 132 multiprocessors, some programs on each.
_PROGRAMS = 1024


class Options(NamedTuple):
    """Static choices.

    Attributes:
      scale: of the logits.
      dropout_rate: of probabilities.
      pieces: rules of one or two sets of keys.
      rows, keys: of a tile.
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


class Keys(NamedTuple):
    """Of one piece.

    Attributes:
      key, value: `[b, k, h, d]`.
      tokens: what the piece's rules read, each `[b or 1, k]`.
    """

    key: Array
    value: Array
    tokens: tuple


def attend(
    options: Options,
    query: Array,
    rows: tuple,
    pieces: tuple[Keys, ...],
    table: LabelTable | None,
    rng: Array | None,
    mesh_axes: MeshAxes,
) -> Array:
    """Attention of rows over the keys of all pieces, in one softmax.

    Args:
      options: static choices.
      query: `[b, n, h, d]`.
      rows: what the rules read of the rows, each `[b or 1, n]`.
      pieces: the keys of each piece; where a piece has a radius, key j stands at row j.
      table: `LabelTable` with `[V, h, d]`, `[V, h]`, or None.
      rng: key of dropout, or None.
      mesh_axes: that batch and heads are split over.

    Returns:
      `[b, n, h, d]` in the dtype of `query`; rows that see nothing are zero.
    """
    b, n, h, d = query.shape
    width = max(_LEAST, pl.next_power_of_2(d))
    length = -(-n // options.rows) * options.rows

    def padded(x, length):
        return jnp.pad(
            x, ((0, 0), (0, length - x.shape[1]), (0, 0), (0, width - x.shape[3]))
        )

    arrays, ints = [], []
    for part in pieces:
        size = -(-part.key.shape[1] // options.keys) * options.keys
        arrays.append((padded(part.key, size), padded(part.value, size)))
        ints.append(Vectors.make(part.tokens, b, size))
    query = padded(query, length)
    t = None
    if table is not None:
        embedding = jnp.pad(
            table.embedding.astype(query.dtype), ((0, 0), (0, 0), (0, width - d))
        )
        # [b, h, n, V]
        t = dot("bqhd,vhd->bhqv", query, embedding, jnp.float32)
        t = t + table.bias.astype(jnp.float32).T[None, :, None]
    seeds = None
    if rng is not None:
        seeds = jax.random.bits(rng, (b, h, len(pieces)), jnp.uint32)
    vectors = {"rows": Vectors.make(rows, b, length), "pieces": tuple(ints)}
    inputs = (query, tuple(arrays), t, vectors, seeds)
    out = _on_each_device(functools.partial(_attend, options), mesh_axes, inputs)
    return out[:, :n, :, :d]


def _on_each_device(fn, axes: MeshAxes, inputs) -> Array:
    """`fn` of each device's part of batch and heads: a kernel is not split by XLA."""
    if not any(axes):
        return fn(*inputs)
    rows = jax.P(axes.batch, None, axes.heads)
    by_heads, tokens = jax.P(axes.batch, axes.heads), jax.P(axes.batch)
    # What the check follows it cannot follow into a kernel.
    return jax.shard_map(
        fn,
        in_specs=(rows, rows, by_heads, tokens, by_heads),
        out_specs=rows,
        axis_names={name for group in axes for name in group},
        check_vma=False,
    )(*inputs)


# --- calls of the kernels -------------------------------------------------------------


def _whole(x: Array) -> pl.BlockSpec:
    """All rows of one head of an example, of `[b, n, h, d]`."""
    return pl.BlockSpec(
        (None, x.shape[1], None, x.shape[3]), lambda i, h, b: (b, 0, h, 0)
    )


def _block(x: Array, size: int, every: int = 1) -> pl.BlockSpec:
    """A program's part of them; `every` programs have the same."""
    return pl.BlockSpec(
        (None, size, None, x.shape[3]), lambda i, h, b: (b, i // every, h, 0)
    )


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


def _given(**arrays):
    """(arrays, specs) of those that are not None."""
    kept = {name: pair for name, pair in arrays.items() if pair[0] is not None}
    return (
        {name: array for name, (array, _) in kept.items()},
        {name: spec for name, (_, spec) in kept.items()},
    )


def _call(body, options: Options, grid, inputs, specs, outputs, out_specs, **how):
    return pl.pallas_call(
        body,
        grid=grid,
        in_specs=[specs],
        out_shape=outputs,
        out_specs=out_specs,
        interpret=options.interpret,
        name=f"attention_{body.func.__name__}",
        compiler_params=plgpu.CompilerParams(
            num_warps=options.num_warps, num_stages=options.num_stages
        ),
        **how,
    )(inputs)


def _row_inputs(options: Options, query, arrays, t, vectors, seeds, of_rows):
    """(inputs, specs) of kernels that have a block of rows."""
    pieces, piece_specs = [], []
    for (key, value), ints in zip(arrays, vectors["pieces"], strict=True):
        pieces.append({"key": key, "value": value, "tokens": ints.ints})
        specs = {"key": _whole(key), "value": _whole(value)}
        piece_specs.append(specs | {"tokens": _tokens(ints.ints)})
    d_output, *of_heads = of_rows or (None, None, None)
    blocks = {"query": query, "d_output": d_output}
    blocks_of_heads = {"t": t} | dict(zip(("lse", "delta"), of_heads, strict=True))
    return _given(
        rows=(vectors["rows"].ints, _tokens(vectors["rows"].ints)),
        pieces=(tuple(pieces), tuple(piece_specs)),
        seeds=(seeds, seeds is not None and _whole_of_head(seeds)),
        **{
            name: (x, x is not None and _block(x, options.rows))
            for name, x in blocks.items()
        },
        **{
            name: (x, x is not None and _block_of_head(x, options.rows))
            for name, x in blocks_of_heads.items()
        },
    )


def _body(kernel, options: Options, vectors, **how):
    # The integers themselves come as refs.
    return functools.partial(kernel, options=options.tile(), vectors=vectors, **how)


def _forward(options: Options, query, arrays, t, vectors, seeds):
    b, n, h, _ = query.shape
    inputs, specs = _row_inputs(options, query, arrays, t, vectors, seeds, None)
    lse = jax.ShapeDtypeStruct((b, h, n), jnp.float32)
    outputs = {"output": jax.ShapeDtypeStruct(query.shape, query.dtype), "lse": lse}
    out_specs = {
        "output": _block(query, options.rows),
        "lse": _block_of_head(lse, options.rows),
    }
    body = _body(kernels.forward, options, _static(vectors), pieces=options.pieces)
    grid = (n // options.rows, h, b)
    found = _call(body, options, grid, inputs, specs, outputs, out_specs)
    return found["output"], found["lse"]


def _static(vectors):
    """Without the arrays, which a kernel has as refs."""
    return jax.tree.map(
        lambda v: v.without_ints(), vectors, is_leaf=lambda x: isinstance(x, Vectors)
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(options: Options, query, arrays, t, vectors, seeds) -> Array:
    """`attend` of padded arrays; `t` `[b, h, n, V]` are the logits of labels."""
    return _forward(options, query, arrays, t, vectors, seeds)[0]


def _vjp_forward(options, *inputs):
    output, lse = _forward(options, *inputs)
    output = checkpoint_name(output, "attention")
    lse = checkpoint_name(lse, "attention")
    return output, (inputs, output, lse)


def _vjp_backward(options: Options, saved, d_output):
    (query, arrays, t, vectors, seeds), output, lse = saved
    # [b, n, 1, h] -> [b, h, n]
    delta = jnp.swapaxes(row_deltas(output, d_output, jnp.float32)[..., 0, :], 1, 2)
    of_rows = (d_output, lse, delta)
    d_query, d_t = _row_gradients(options, query, arrays, t, vectors, seeds, of_rows)
    d_arrays = tuple(
        _key_gradients(options, i, query, arrays[i], t, vectors, seeds, of_rows)
        for i in range(len(arrays))
    )
    return d_query, d_arrays, d_t, None, None


def _row_gradients(options: Options, query, arrays, t, vectors, seeds, of_rows):
    b, n, h, _ = query.shape
    inputs, specs = _row_inputs(options, query, arrays, t, vectors, seeds, of_rows)
    outputs = {"query": jax.ShapeDtypeStruct(query.shape, query.dtype)}
    out_specs = {"query": _block(query, options.rows)}
    aliases = {}
    if t is not None:
        # Not every label has a key in each row: what is not written is 0.
        inputs["d_t"] = jnp.zeros_like(t)
        specs["d_t"] = out_specs["t"] = _block_of_head(t, options.rows)
        outputs["t"] = jax.ShapeDtypeStruct(t.shape, t.dtype)
        names = [path[0].key for path, _ in jax.tree.leaves_with_path(inputs)]
        aliases[names.index("d_t")] = sorted(outputs).index("t")
    body = _body(
        kernels.row_gradients, options, _static(vectors), pieces=options.pieces
    )
    grid = (n // options.rows, h, b)
    found = _call(
        body,
        options,
        grid,
        inputs,
        specs,
        outputs,
        out_specs,
        input_output_aliases=aliases,
    )
    return found["query"], found.get("t")


def _key_gradients(options: Options, i, query, arrays, t, vectors, seeds, of_rows):
    key, value = arrays
    b, n, h, _ = query.shape
    d_output, lse, delta = of_rows
    blocks = key.shape[1] // options.keys
    # Few keys that many rows see: the rows are split, and their sums added.
    tiles = n // options.rows if options.pieces[i].radius is None else 1
    splits = max(1, min(tiles // 4, _PROGRAMS // (blocks * h * b)))
    ints = vectors["pieces"][i]
    seed = None if seeds is None else seeds[..., i : i + 1]
    of_heads = {"t": t, "lse": lse, "delta": delta, "seed": seed}
    inputs, specs = _given(
        rows=(vectors["rows"].ints, _tokens(vectors["rows"].ints)),
        key=(key, _block(key, options.keys, splits)),
        value=(value, _block(value, options.keys, splits)),
        tokens=(ints.ints, _tokens(ints.ints)),
        query=(query, _whole(query)),
        d_output=(d_output, _whole(d_output)),
        **{
            name: (x, x is not None and _whole_of_head(x))
            for name, x in of_heads.items()
        },
    )
    # Of each split: [splits, b, k, h, d].
    dtype = key.dtype if splits == 1 else jnp.float32
    spec = pl.BlockSpec(
        (None, None, options.keys, None, key.shape[3]),
        lambda i, h, b: (i % splits, b, i // splits, h, 0),
    )
    names = ("key", "value")
    outputs = dict.fromkeys(names, jax.ShapeDtypeStruct((splits, *key.shape), dtype))
    body = _body(
        kernels.key_gradients,
        options,
        _static({"rows": vectors["rows"], "keys": ints}),
        piece=options.pieces[i],
        splits=splits,
    )
    grid = (blocks * splits, h, b)
    specs_out = dict.fromkeys(names, spec)
    found = _call(body, options, grid, inputs, specs, outputs, specs_out)
    if splits == 1:
        return tuple(found[name][0] for name in names)
    return tuple(found[name].sum(axis=0).astype(key.dtype) for name in names)


_attend.defvjp(_vjp_forward, _vjp_backward)
