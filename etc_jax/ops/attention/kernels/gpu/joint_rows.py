"""Rows over one or two sets of keys in one softmax, as kernels for NVIDIA GPUs.

Long rows see a window of long keys and all global keys; global rows see all global and
all long keys (Ainslie et al. 2020, section 3.2). No logits are written to memory: the
backward pass works them out again from the saved log-sum-exp, once for the rows and
once for the keys.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl

from etc_jax.base.types import LabelTable, MeshAxes
from etc_jax.ops.attention.kernels.devices import on_each_device
from etc_jax.ops.attention.kernels.gpu import calls
from etc_jax.ops.attention.kernels.gpu.calls import Inputs, OfRows, Options
from etc_jax.ops.attention.kernels.pieces import Keys, Vectors
from etc_jax.ops.attention.parts.softmax import dot, row_deltas

Array = jax.Array

# The least that a product of matrices takes in a kernel.
_LEAST = 16


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

    def padded(x, size):
        """To whole tiles of `size`: [b, n, h, d] -> [b, length, h, width]."""
        ends = (0, -x.shape[1] % size, 0, width - d)
        return jnp.pad(x, [(0, end) for end in ends])

    arrays, ints = [], []
    for part in pieces:
        arrays.append(tuple(padded(x, options.keys) for x in part[:2]))
        ints.append(Vectors.make(part.tokens, b, arrays[-1][0].shape[1]))
    query = padded(query, options.rows)
    t = seeds = None
    if table is not None:
        widths = [(0, 0), (0, 0), (0, width - d)]
        embedding = jnp.pad(table.embedding.astype(query.dtype), widths)
        # [b, h, n, V]
        t = dot("bqhd,vhd->bhqv", query, embedding, jnp.float32)
        t = t + table.bias.astype(jnp.float32).T[None, :, None]
    if rng is not None:
        seeds = jax.random.bits(rng, (b, h, len(pieces)), jnp.uint32)
    tokens = Vectors.make(rows, b, query.shape[1])
    inputs = Inputs(query, tuple(arrays), t, tokens, tuple(ints), seeds)
    of_rows = jax.P(mesh_axes.batch, None, mesh_axes.heads)
    of_heads, of_tokens = jax.P(*mesh_axes), jax.P(mesh_axes.batch)
    specs = Inputs(of_rows, of_rows, of_heads, of_tokens, of_tokens, of_heads)
    fn = functools.partial(_attend, options)
    out = on_each_device(fn, inputs, specs, of_rows)
    return out[:, :n, :, :d]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(options: Options, inputs: Inputs) -> Array:
    """`attend` of what is padded to whole tiles."""
    return calls.forward(options, inputs)[0]


def _vjp_forward(options: Options, inputs: Inputs):
    output, lse = checkpoint_name(calls.forward(options, inputs), "attention")
    return output, (inputs, output, lse)


def _vjp_backward(options: Options, saved, d_output):
    inputs, output, lse = saved
    # [b, n, 1, h] -> [b, h, n]
    delta = jnp.swapaxes(row_deltas(output, d_output, jnp.float32)[..., 0, :], 1, 2)
    of_rows = OfRows(d_output, lse, delta)
    d_query, d_t = calls.row_gradients(options, inputs, of_rows)
    d_arrays = tuple(
        calls.key_gradients(options, inputs, of_rows, number)
        for number in range(len(inputs.arrays))
    )
    return (Inputs(d_query, d_arrays, d_t, None, None, None),)


_attend.defvjp(_vjp_forward, _vjp_backward)
