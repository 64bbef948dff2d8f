"""Arrays as the kernels have them, which part of each a program has, and their cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from etc_jax.ops.attention.kernels.tpu.strips import BlockBias
from etc_jax.ops.attention.kernels.tpu.tiles import Softmax, chosen

Array = jax.Array

# A core of each kind has more; Mosaic's default bound is far lower.
_VMEM_BYTES = 64 * 2**20


class Inputs(NamedTuple):
    """Padded to whole tiles; F = groups * ways * d features.

    Attributes:
      query: `[b, n, F]`.
      arrays: (keys, values) of each piece, `[b, k, F]` each.
      embedding: of labels, by the rows of the kernel's table, `[labels, F]`, or None.
      label_bias: float32 `[groups, labels, ways]`, or None.
      bias: strips, see `strips`, float32 `[groups, places, ways * 128]`, or None.
      side_bias: the same of the second piece, by blocks of queries, or None.
      rows: integers of the rows, int32 `[b, 8 or more, n]`.
      keys: integers of the keys of each piece, int32 `[b, 8 or more, k]`.
      seeds: uint32 `[b, groups * ways, 2 * pieces]` of dropout: one for each piece, and
        then the number of its first key; or None.
    """

    query: Array
    arrays: tuple[tuple[Array, Array], ...]
    embedding: Array | None
    label_bias: Array | None
    bias: Array | None
    side_bias: BlockBias | None
    rows: Array
    keys: tuple[Array, ...]
    seeds: Array | None


class Part(NamedTuple):
    """An array, and what a program has of it.

    Attributes:
      array: or its shape and dtype.
      block: shape of the program's part; None where an axis has one index.
      index: function of the program's indices, to those of the block.
      fetches: how often a block is read or written in all.
      scalars: in the core's memory of scalars, which is small.
    """

    array: Any
    block: tuple[int | None, ...]
    index: Callable
    fetches: int
    scalars: bool = False

    def bytes(self) -> int:
        """Moved between the memories in all."""
        size = math.prod(x for x in self.block if x is not None)
        return size * self.array.dtype.itemsize * self.fetches


def _is_part(x) -> bool:
    return isinstance(x, Part)


def call(
    body: Callable,
    name: str,
    interpret: bool,
    grid: tuple[int, ...],
    inputs: dict[str, Any],
    outputs: dict[str, Part],
    scratch: Any,
    *,
    flops: int,
    exponentials: int,
) -> dict[str, Array]:
    """Runs a kernel over a grid whose first axis alone may be split between cores.

    Args:
      body: function of refs (inputs, outputs, scratch), each in the structure of these.
      name: in profiles.
      interpret: run as plain operations, on any device.
      grid: of its programs, the last axis fastest.
      inputs: trees of parts.
      outputs: parts.
      scratch: a tree of memory that all programs share.
      flops: in all.
      exponentials: in all.
    """

    def spec(part: Part) -> pl.BlockSpec:
        memory = pltpu.SMEM if part.scalars else None
        return pl.BlockSpec(part.block, part.index, memory_space=memory)

    def tree(fn, parts):
        return jax.tree.map(fn, parts, is_leaf=_is_part)

    moved = jax.tree.leaves((inputs, outputs), is_leaf=_is_part)
    return pl.pallas_call(
        body,
        grid=grid,
        in_specs=[tree(spec, inputs)],
        out_specs=tree(spec, outputs),
        out_shape=tree(lambda part: part.array, outputs),
        scratch_shapes=[scratch],
        interpret=interpret,
        name=name,
        cost_estimate=pl.CostEstimate(
            flops=flops,
            transcendentals=exponentials,
            bytes_accessed=sum(part.bytes() for part in moved),
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", *("arbitrary",) * (len(grid) - 1)),
            vmem_limit_bytes=_VMEM_BYTES,
        ),
    )(tree(lambda part: part.array, inputs))


def saved(x: Array) -> Array:
    """What a kernel wrote, of any shape, which remat's policy "attention" keeps.

    As bits: floats that it keeps jax rounds once more, to what they are, and of what a
    kernel wrote that is one more pass through memory.
    """
    bits = jnp.dtype(f"uint{8 * x.dtype.itemsize}")
    stored = checkpoint_name(jax.lax.bitcast_convert_type(x, bits), "attention")
    return jax.lax.bitcast_convert_type(stored, x.dtype)


def row_deltas(output: Array, d_output: Array, heads: int) -> Array:
    """The `softmax.row_deltas` of `[b, n, F]`: float32 `[b, heads, n]`.

    With heads as an axis of the products XLA would copy all of them, rows last: their
    sums are a product with a matrix of ones and zeros.
    """
    products = output.astype(jnp.float32) * d_output.astype(jnp.float32)
    of_head = jnp.repeat(
        jnp.eye(heads, dtype=jnp.float32), products.shape[2] // heads, axis=0
    )
    precision = jax.lax.Precision.HIGHEST
    return jnp.einsum("bnf,fh->bhn", products, of_head, precision=precision)


def pairs_scratch(softmax: Softmax, number: int, keys: int, q: int) -> tuple:
    """(mask, label or None) of `tiles.Pairs`, as scratch."""
    label = pltpu.VMEM((keys, q), jnp.int32) if chosen(softmax.pieces[number]) else None
    return pltpu.VMEM((keys, q), jnp.float32), label


def of_table(
    softmax: Softmax, inputs: Inputs, fetches: int, example_axis: int = 0
) -> dict:
    """Parts of the label table and the seeds of dropout.

    A table needs a grid of examples first and groups last.
    """
    parts = {}
    if inputs.embedding is not None:
        count = inputs.embedding.shape[0]
        width = softmax.width
        parts["embedding"] = Part(
            inputs.embedding, (count, width), lambda *at: (0, at[-1]), fetches
        )
        shape = (None, count, softmax.ways)
        parts["label_bias"] = Part(
            inputs.label_bias, shape, lambda *at: (at[-1], 0, 0), fetches
        )
    if inputs.seeds is not None:
        parts["seeds"] = scalars(inputs.seeds, example_axis)
    return parts


def scalars(x: Array, axis: int = 0) -> Part:
    """An array `[b, ...]` of scalars of examples, which are an axis of the grid."""
    examples, *shape = x.shape
    zeros = (0,) * len(shape)
    return Part(x, (None, *shape), lambda *at: (at[axis], *zeros), examples, True)


def whole(x: Array) -> Part:
    """An array `[groups, ...]` of which each program has all; it is read once."""
    zeros = (0,) * x.ndim
    return Part(x, x.shape, lambda *_: zeros, 1)


def per_example(examples: int, shape: tuple[int, ...]) -> Part:
    """Float32 sums `[examples, *shape]` over all programs of an example."""
    array = jax.ShapeDtypeStruct((examples, *shape), jnp.float32)
    zeros = (0,) * len(shape)
    return Part(array, (None, *shape), lambda b, *_: (b, *zeros), examples)


def add_table_outputs(softmax, inputs: Inputs, outputs, scratch, lanes: int, lead=()):
    """Adds parts of the gradients of the label table, if there is one.

    Args:
      softmax: static choices.
      inputs: of the call.
      outputs: parts, to which sums are added.
      scratch: to which the gradient of the label logits is added.
      lanes: of the logits.
      lead: axes of the scratch before these.
    """
    if inputs.embedding is None:
        return
    b, _, features = inputs.query.shape
    count, groups = inputs.embedding.shape[0], features // softmax.width
    outputs["embedding"] = per_example(b, (groups, count, softmax.width))
    outputs["label_bias"] = per_example(b, (groups, count, lanes))
    scratch["column"] = pltpu.VMEM((*lead, count, lanes), jnp.float32)


def joined_groups(x: Array) -> Array:
    """`[b, groups, rows, width]` -> `[b, rows, F]`."""
    b, groups, rows, width = x.shape
    return jnp.swapaxes(x, 1, 2).reshape(b, rows, groups * width)


def finished(softmax: Softmax, inputs: Inputs, results: dict, arrays: tuple) -> Inputs:
    """The gradients of the inputs, of the results of a call; None for integers."""
    embedding = bias = None
    if inputs.embedding is not None:
        embedding = joined_groups(results["embedding"].sum(axis=0, keepdims=True))[0]
        embedding = (embedding * softmax.scale).astype(inputs.embedding.dtype)
        # [b, groups, labels, ways * q] -> [groups, labels, ways]
        columns = results["label_bias"]
        *lead, lanes = columns.shape
        columns = columns.reshape(*lead, softmax.ways, lanes // softmax.ways)
        bias = columns.sum(axis=(0, -1)) * softmax.scale
    d_bias, d_side_bias = results.get("bias"), None
    if d_bias is not None:
        # Of each example, or of all.
        d_bias = d_bias.reshape(-1, *inputs.bias.shape).sum(axis=0) * softmax.scale
    if inputs.side_bias is not None:
        strips = results["side_bias"].sum(axis=0) * softmax.scale
        strips = strips[..., : inputs.side_bias.strips.shape[2]]
        d_side_bias = BlockBias(strips, None, None)
    query = results["query"]
    biases = bias, d_bias, d_side_bias
    return Inputs(query, arrays, embedding, *biases, None, None, None)
