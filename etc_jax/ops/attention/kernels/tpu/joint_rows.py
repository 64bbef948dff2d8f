"""Rows over one or two sets of keys in one softmax, as kernels for TPUs.

Long rows see a window of long keys and all global keys; global rows see all global and
all long keys (Ainslie et al. 2020, section 3.2). No logits are written to memory: the
backward pass works them out again from the saved log-sum-exp. Arrays are read as they
are, `[b, n, h * d]`: what has to be transposed is so in the kernels.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.types import LabelTable, MeshAxes
from etc_jax.ops import blocking
from etc_jax.ops.attention.bias import SideBias
from etc_jax.ops.attention.kernels.devices import on_each_device
from etc_jax.ops.attention.kernels.pieces import Keys, OffsetBias, Vectors
from etc_jax.ops.attention.kernels.tpu import all_keys, calls, strips, windows
from etc_jax.ops.attention.kernels.tpu.calls import Inputs
from etc_jax.ops.attention.kernels.tpu.registers import (
    LANES,
    SUBLANES,
    features_of,
    group_of_heads,
    heads_of,
    round_up,
)
from etc_jax.ops.attention.kernels.tpu.strips import BlockBias
from etc_jax.ops.attention.kernels.tpu.tiles import Softmax
from etc_jax.ops.dropout import of_later_rows

Array = jax.Array

# A register has 16 rows of bfloat16.
_TABLE_ROWS = 16


class Options(NamedTuple):
    """Static choices.

    Attributes:
      scale: of the logits.
      dropout_rate: of probabilities.
      pieces: rules of one or two sets of keys.
      interpret: run as plain operations, on any device.
    """

    scale: float
    dropout_rate: float
    pieces: tuple
    interpret: bool = False


class _Arrays(NamedTuple):
    """What is split over devices, as it came: only integers and strips are padded.

    Attributes:
      query: `[b, n, h, d]`.
      arrays: (keys, values) of each piece, `[b, k, h, d]` each.
      table: `LabelTable` by the rows of the kernel's table, or None.
      bias: float32 `[h, places, 128]`, see `strips`, or None.
      side_bias: see `strips.BlockBias`, or None.
      rows, keys: integers, see `calls.Inputs`.
      seeds: see `calls.Inputs`, `[b, h, 2 * pieces]`, or None.
    """

    query: Array
    arrays: tuple[tuple[Array, Array], ...]
    table: LabelTable | None
    bias: Array | None
    side_bias: BlockBias | None
    rows: Array
    keys: tuple[Array, ...]
    seeds: Array | None


def attend(*args, **options) -> Array:
    """The output of `attend_part`, where the keys are all that there are."""
    return attend_part(*args, **options)[0]


def attend_part(
    options: Options,
    query: Array,
    rows: tuple,
    pieces: tuple[Keys, ...],
    table: LabelTable | None,
    rng: Array | None,
    mesh_axes: MeshAxes,
    bias: OffsetBias | None = None,
    side_bias: SideBias | None = None,
    first: tuple[Array | int, tuple[Array | int, ...]] | None = None,
) -> tuple[Array, Array]:
    """Attention of rows over the keys of all pieces, in one softmax.

    Args:
      options: static choices.
      query: `[b, n, h, d]`.
      rows: what the rules read of the rows, each `[b or 1, n]`.
      pieces: the keys of each piece; where a piece has a radius, key j stands at row j.
      table: `LabelTable` with `[V, h, d]`, `[V, h]`, or None.
      rng: key of dropout, or None.
      mesh_axes: that batch and heads are split over.
      bias: added to the logits of the first piece, or None.
      side_bias: with `values`, added to those of the second piece, or None.
      first: numbers, for dropout, of the first row and of the first key of each piece;
        None: zeros.

    Returns:
      (`[b, n, h, d]` in the dtype of `query`, log-sum-exp float32 `[b, h, n]`); rows
      that see nothing are zero, and have 1e30.
    """
    b, n, h, d = query.shape

    def vectors(tokens, length):
        return Vectors.make(tokens, b, round_up(length, LANES))

    of_rows = vectors(rows, n)
    of_keys = [vectors(part.tokens, part.key.shape[1]) for part in pieces]
    ways, width = group_of_heads(d)
    softmax = Softmax(
        scale=options.scale,
        dropout_rate=options.dropout_rate,
        pieces=options.pieces,
        ways=ways,
        width=width,
        others=tuple(dict.fromkeys(v for p in options.pieces for v in p.others)),
        row_vectors=of_rows.without_ints(),
        key_vectors=tuple(x.without_ints() for x in of_keys),
        interpret=options.interpret,
    )
    seeds = None
    if rng is not None:
        row, keys = first or (0, (0,) * len(pieces))
        seeds = jax.random.bits(rng, (b, h, len(pieces)), jnp.uint32)
        seeds = of_later_rows(seeds, jnp.asarray(row))
        keys = jnp.stack([jnp.asarray(x, jnp.uint32) for x in keys])
        seeds = jnp.concatenate([seeds, jnp.broadcast_to(keys, seeds.shape)], axis=2)
    if table is not None:
        # Rows by distance, the clipped ones several times; then the others.
        labels = softmax.table_rows
        labels = jnp.array(labels + [0] * (-len(labels) % _TABLE_ROWS))
        table = LabelTable(
            table.embedding[labels].astype(query.dtype),
            table.bias[labels].astype(jnp.float32),
        )
    lengths = [round_up(x, LANES) for x in (n, *(x.key.shape[1] for x in pieces))]
    strip = None
    if bias is not None:
        span = _kernels(softmax).span(softmax, *lengths[:2])
        # It is scaled with the products.
        strip = strips.make(span, bias.values / options.scale, bias.before)
        strip = jnp.broadcast_to(strip, (h, *strip.shape[1:]))
    blocks = None
    if side_bias is not None:
        values = side_bias.values / options.scale
        blocks = BlockBias.make(values, side_bias.index, lengths[0], lengths[2])
        shape = (h, *blocks.strips.shape[1:])
        blocks = blocks._replace(strips=jnp.broadcast_to(blocks.strips, shape))
    arrays = _Arrays(
        query=query,
        arrays=tuple((x.key, x.value) for x in pieces),
        table=table,
        bias=strip,
        side_bias=blocks,
        rows=_stacked(of_rows),
        keys=tuple(map(_stacked, of_keys)),
        seeds=seeds,
    )
    rows_spec = jax.P(mesh_axes.batch, None, mesh_axes.heads)
    tokens_spec = jax.P(mesh_axes.batch)
    blocks_spec = heads_spec = jax.P(mesh_axes.heads)
    if blocks is not None:
        blocks_spec = BlockBias(heads_spec, tokens_spec, tokens_spec)
    specs = _Arrays(
        query=rows_spec,
        arrays=rows_spec,
        table=jax.P(None, mesh_axes.heads),
        bias=heads_spec,
        side_bias=blocks_spec,
        rows=tokens_spec,
        keys=tokens_spec,
        seeds=jax.P(mesh_axes.batch, mesh_axes.heads),
    )
    fn = functools.partial(_attend_heads, softmax)
    results = rows_spec, jax.P(mesh_axes.batch, mesh_axes.heads)
    return on_each_device(fn, arrays, specs, results)


def _padded(x: Array, size: int) -> Array:
    """`[b, n, ...]`, n padded to a multiple of `size`."""
    return blocking.pad_axis(x, 1, 0, -x.shape[1] % size)


def _stacked(vectors: Vectors) -> Array:
    """`[b, n]` integers -> `[b, 8 or more, n]`, a row each."""
    return _padded(jnp.stack(vectors.ints, axis=1), SUBLANES)


def _attend_heads(softmax: Softmax, arrays: _Arrays) -> tuple[Array, Array]:
    """Heads, features and rows padded to whole groups and tiles, and back."""
    _, n, h, d = arrays.query.shape
    ways = softmax.ways
    # Padded heads have seeds and labels as well, which nothing reads.
    more_heads = -h % ways

    def features(x):
        """`[..., h, d]` -> `[..., F]`."""
        return features_of(x, ways, softmax.width)

    def rows(x):
        """`[b, n, h, d]` -> `[b, n with padding, F]`.

        Of heads apart a TPU would pad in another layout, with a copy there and back.
        """
        return _padded(features(x), LANES)

    def strips_of_groups(x):
        """`[h, places, lanes]` -> `[groups, places, ways * lanes]`."""
        x = blocking.pad_axis(x, 0, 0, more_heads)
        x = jnp.swapaxes(x.reshape(-1, ways, *x.shape[1:]), 1, 2)
        return x.reshape(*x.shape[:2], -1)

    embedding = label_bias = bias = side_bias = seeds = None
    if arrays.table is not None:
        embedding = features(arrays.table.embedding)
        label_bias = jnp.pad(arrays.table.bias, ((0, 0), (0, more_heads)))
        # [labels, h] -> [groups, labels, ways]
        count = label_bias.shape[0]
        label_bias = jnp.swapaxes(label_bias.reshape(count, -1, ways), 0, 1)
    if arrays.bias is not None:
        bias = strips_of_groups(arrays.bias)
    if arrays.side_bias is not None:
        of_heads, lane, start = arrays.side_bias
        lane = _padded(lane[:, None], SUBLANES)
        side_bias = BlockBias(strips_of_groups(of_heads), lane, start)
    if arrays.seeds is not None:
        seeds = jnp.pad(arrays.seeds, ((0, 0), (0, more_heads), (0, 0)))
    inputs = Inputs(
        query=rows(arrays.query),
        arrays=jax.tree.map(rows, arrays.arrays),
        embedding=embedding,
        label_bias=label_bias,
        bias=bias,
        side_bias=side_bias,
        rows=arrays.rows,
        keys=arrays.keys,
        seeds=seeds,
    )
    out, lse = _attend(softmax, inputs)
    # [b, groups, ways, n] -> [b, h, n]
    lse = lse.reshape(len(lse), -1, lse.shape[-1])[:, :h, :n]
    return heads_of(out[:, :n], h, d, ways), lse


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(softmax: Softmax, inputs: Inputs) -> tuple[Array, Array]:
    """`attend` of what is padded, `[b, n, F]` and `[b, groups, ways, n]`."""
    return _forward(softmax, inputs)


def _kernels(softmax: Softmax):
    return all_keys if softmax.pieces[0].radius is None else windows


def _forward(softmax: Softmax, inputs: Inputs) -> tuple[Array, Array]:
    return _kernels(softmax).forward(softmax, inputs)


def _vjp_forward(softmax: Softmax, inputs: Inputs):
    output, lse = map(calls.saved, _forward(softmax, inputs))
    return (output, lse), (inputs, output, lse)


def _vjp_backward(softmax: Softmax, saved, gradients):
    (inputs, output, lse), (d_output, d_lse) = saved, gradients
    delta = calls.row_deltas(output, d_output, math.prod(lse.shape[1:3]))
    # The gradient of a row's logits by its lse are its probabilities.
    delta = delta.reshape(lse.shape) - d_lse
    return (_kernels(softmax).backward(softmax, inputs, d_output, lse, delta),)


_attend.defvjp(_vjp_forward, _vjp_backward)
