"""Attention of blocks, and to the averages of keys and values (Xiong et al. 2022).

    blocks = Blocks(1024)
    output = attend(query, key, value, blocks=blocks, example_ids=example_ids)
    pool = Pool(kernel=18, stride=12, padding=9)
    output = attend_pooled(query, key, value, pool=pool, example_ids=example_ids)

Section 2.1 of the paper: a token sees the tokens of its block. Three ways lead out of
it: blocks that overlap, global tokens at the start of each block, and a second
attention of every token to averages over the whole sequence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.base.types import WHOLE, MeshAxes
from etc_jax.ops import blocking, sequence
from etc_jax.ops.attention import dense, full
from etc_jax.ops.attention.kernels import choice, full as by_kernels
from etc_jax.ops.attention.parts.block_maps import (
    QUERIES,
    WHOLE_SEQUENCE,
    attend_in_parts,
    blocks_at_once,
    blocks_first,
    each_block,
    on_each_device,
)
from etc_jax.ops.attention.parts.checks import check_one_length, check_rows
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import of_examples
from etc_jax.ops.attention.parts.pairs import SequenceShard
from etc_jax.ops.blocking import join_heads, split_heads

Array = jax.Array

# Kernels take up to 512 keys at a time, as many as divide all: averages are padded to
# this, since 1,366 of 16,384 tokens would be 11 times 128, with all queries for each.
_AVERAGES = 256


class Blocks(NamedTuple):
    """What a token sees.

    Attributes:
      size: tokens of a block.
      overlap: a token also sees the nearer half of the block before its own, and of the
        one after it.
      num_globals: first tokens of each block that see everything and are seen by all.
    """

    size: int
    overlap: bool = False
    num_globals: int = 0

    @property
    def reach(self) -> int:
        """Tokens of each neighbour that a block sees."""
        return self.size // 2 if self.overlap else 0


class Pool(NamedTuple):
    """Averages over a sequence; places outside of it count as zeros.

    Attributes:
      kernel: places of an average.
      stride: places from one to the next.
      padding: places before the first token that the first one begins.
      multiple: a text has as many averages as one that ends with the next multiple of
        so many places, and one at least: what a batch is padded to beyond that changes
        nothing.
    """

    kernel: int
    stride: int
    padding: int
    multiple: int = 1

    def count(self, length: int | Array) -> int | Array:
        """Averages of texts of `length` tokens: an int, or int of the same shape."""
        length = -(-length // self.multiple) * self.multiple
        count = (length + 2 * self.padding - self.kernel) // self.stride + 1
        return max(count, 1) if isinstance(count, int) else jnp.maximum(count, 1)


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    blocks: Blocks,
    example_ids: Array | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    sequence_axis: str | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Array:
    """Attention of each token to its block, and to what `blocks` adds to it.

    Args:
      query: `[b, n, h, d]`, any n.
      key: `[b, n, h, d]`, any n.
      value: `[b, n, h, d]`, any n.
      blocks: who sees whom.
      example_ids: int `[b, n]`; 0 is padding, whose rows are zero, and packed examples
        do not see each other; None: one example.
      scale: of the products; None: 1 / sqrt(d).
      implementation: "xla" (linear in n, but for global tokens), "mosaic" (kernels for
        TPUs), "dense" (quadratic, the oracle), "auto": see `kernels.choice`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      sequence_axis: mesh axis (of the mesh in `jax.set_mesh`) that the sequence is
        split over; None: it is not.
      shards: devices that batch and heads are split over.
      mesh_axes: mesh axes that they are split over: kernels need to know.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    ids = _checked_ids(query, key, value, example_ids)
    _check_blocks(blocks)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    n, d = query.shape[1], query.shape[3]
    scale = d**-0.5 if scale is None else scale
    # Of one example of a kernel: a block, or all global tokens.
    queries = max(blocks.size, -(-n // blocks.size) * blocks.num_globals)
    problems = by_kernels.problems(queries, n, scale)
    split = {"sequence_axis": sequence_axis, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query, problems, **split)
    if not n:
        return query
    if implementation == "dense":
        mask = seen(blocks, ids)[:, None]
        rows = (query, key, value, mask)
        return dense.attend(*rows, scale=scale, dropout=dropout.dense())

    def of_shard(query, key, value, ids, rng, shard=WHOLE_SEQUENCE):
        drop = dropout._replace(rng=rng)
        rows = (query, key, value, ids)
        how = None if kernels is None else (kernels, mesh_axes)
        return _block_rows(*rows, blocks, scale, drop, shards, shard, how)

    rows, split = (query, key, value, ids), (True,) * 4
    where = dropout.rng, blocks.size, sequence_axis
    return on_each_device(of_shard, rows, split, *where)[:, :n]


def attend_pooled(
    query: Array,
    key: Array,
    value: Array,
    *,
    pool: Pool,
    example_ids: Array | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    sequence_axis: str | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Array:
    """Attention of each token to averages of keys and values of the whole sequence.

    An average is of all its places; those of padding count as zeros in it. Of an
    average whose places are all padding nothing is seen. Rows hold one example each,
    which ends with its last token.

    Args:
      query: `[b, n, h, d]`, any n.
      key: `[b, n, h, d]`, any n.
      value: `[b, n, h, d]`, any n.
      pool: the averages.
      example_ids: int `[b, n]`; 0 is padding, whose rows are zero; None: there is none.
      scale: see `attend`.
      implementation: see `attend`; "dense" averages by a matrix.
      dropout_rate: see `attend`.
      dropout_rng: see `attend`.
      sequence_axis: see `attend`.
      shards: see `attend`.
      mesh_axes: see `attend`.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    ids = _checked_ids(query, key, value, example_ids)
    _check_pool(pool)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    n, d = query.shape[1], query.shape[3]
    scale = d**-0.5 if scale is None else scale
    problems = by_kernels.problems(n, n, scale)
    split = {"sequence_axis": sequence_axis, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query, problems, **split)
    if not n:
        return query
    real = ids > 0
    position = jnp.arange(1, n + 1, dtype=jnp.int32)[None]
    # int [b, 1] averages of each text.
    count = pool.count(jnp.max(jnp.where(real, position, 0), axis=1, keepdims=True))
    # Zeros in padding: [b, n, h * d], twice, up to a multiple.
    key, value, marks = (
        sequence.pad_to_multiple(x, 1, pool.multiple)
        for x in (
            *(jnp.where(real[..., None], join_heads(x), 0) for x in (key, value)),
            real,
        )
    )
    h = query.shape[2]
    if implementation == "dense":
        matrix = averages(pool, key.shape[1], key.dtype)
        key, value = (
            split_heads(jnp.einsum("sn,bnf->bsf", matrix, x), h) for x in (key, value)
        )
        # bool [b, s] of averages that hold a token, [b, 1, n, s] of pairs.
        exists = jnp.any(marks[:, None] & (matrix > 0)[None], axis=-1)
        exists &= jnp.arange(len(matrix))[None] < count
        mask = (real[:, :, None] & exists[:, None])[:, None]
        rows = (query, key, value, mask)
        return dense.attend(*rows, scale=scale, dropout=dropout.dense())
    # [b, n, ...] -> [b, s, ...] of s averages.
    key, value = (pooled(pool, x) for x in (key, value))
    exists = pooled(pool, marks.astype(jnp.float32)) > 0
    exists &= jnp.arange(exists.shape[1])[None] < count
    real, exists = (x.astype(jnp.int32) for x in (real, exists))
    if kernels is not None:
        key, value, exists = (
            sequence.pad_to_multiple(x, 1, _AVERAGES) for x in (key, value, exists)
        )
    # [b, s, h * d] -> [b, s, h, d].
    key, value = (split_heads(x, h) for x in (key, value))
    rows = (query, real, key, value, exists)
    if kernels is not None:
        return _all_keys((kernels, mesh_axes), *rows, scale, dropout)

    def of_shard(query, ids, key, value, exists, rng, shard=WHOLE_SEQUENCE):
        rest = scale, dropout.rate, rng, shards, shard
        return attend_in_parts(query, ids, key, value, exists, *rest)

    split = (True, True, False, False, False)
    where = dropout.rng, min(QUERIES, n), sequence_axis
    return on_each_device(of_shard, rows, split, *where)[:, :n]


def seen(blocks: Blocks, example_ids: Array) -> Array:
    """Who sees whom, from the definition: bool `[b, n, n]`, queries and then keys."""
    n = example_ids.shape[1]
    position = jnp.arange(n)
    # [n, 1] of queries, [1, n] of keys.
    first = (position // blocks.size * blocks.size)[:, None]
    key = position[None]
    pairs = (key >= first - blocks.reach) & (key < first + blocks.size + blocks.reach)
    is_global = position % blocks.size < blocks.num_globals
    pairs |= is_global[:, None] | is_global[None]
    same = example_ids[:, :, None] == example_ids[:, None]
    return pairs[None] & same & (example_ids > 0)[:, None]


def averages(pool: Pool, length: int, dtype: jnp.dtype = jnp.float32) -> Array:
    """The matrix of the averages, from the definition: `[averages, n]`."""
    first = jnp.arange(pool.count(length))[:, None] * pool.stride - pool.padding
    position = jnp.arange(length)[None]
    inside = (position >= first) & (position < first + pool.kernel)
    return inside.astype(dtype) / pool.kernel


def pooled(pool: Pool, x: Array) -> Array:
    """Averages along a sequence, `[b, n, ...]` -> `[b, averages, ...]`.

    Of short pieces each place is read once; an average is a sum of whole pieces.
    """
    count = pool.count(x.shape[1])
    piece = math.gcd(pool.kernel, pool.stride)
    step, width = pool.stride // piece, pool.kernel // piece
    # As many pieces as all averages have places.
    pieces = (count - 1) * step + width
    x = blocking.pad_axis(x, 1, pool.padding, max(0, pieces * piece - x.shape[1]))
    x = blocking.blocks(x[:, : pieces * piece], pieces, 1)
    wide = jnp.sum(x, axis=2, dtype=jnp.promote_types(x.dtype, jnp.float32))
    total = sum(wide[:, i : i + (count - 1) * step + 1 : step] for i in range(width))
    return (total / pool.kernel).astype(x.dtype)


def _block_rows(
    query, key, value, ids, blocks: Blocks, scale, dropout, shards, shard, kernels
) -> Array:
    """Attention of whole blocks here, of a device or of all."""
    size, reach, count = blocks.size, blocks.reach, query.shape[1] // blocks.size
    h = query.shape[2]
    query, key, value = (join_heads(x) for x in (query, key, value))
    # What a block sees of itself and its neighbours: [b, C, size + 2 * reach, ...].
    around = [*shard.around((key, value), reach, 1), *shard.around((ids,), reach, 1)]
    around = [blocking.windows(x, count, size, 1) for x in around]
    side = ()
    if blocks.num_globals:
        # They stand beside the windows: in them too they would count twice.
        offset = (jnp.arange(size + 2 * reach) - reach) % size
        around[2] = jnp.where(offset < blocks.num_globals, 0, around[2])
        fronts = [_fronts(x, blocks, shard) for x in (query, key, value, ids)]
        side = fronts[1:]

    def of_block(query, query_ids, *rest):
        *window, rng = rest
        if side:
            window = [
                jnp.concatenate([a, w], axis=1)
                for a, w in zip(side, window, strict=True)
            ]
        query, *rows = (split_heads(x, h) for x in (query, *window[:2]))
        out = attend_in_parts(
            query, query_ids, *rows, window[2], scale, dropout.rate, rng, shards
        )
        return join_heads(out)

    if kernels is not None:
        rows = query, ids, around, side
        out = _blocks_by_kernels(kernels, *rows, h, scale, dropout)
    else:
        keys = around[0].shape[2] + (side[0].shape[1] if side else 0)
        at_once = blocks_at_once(split_heads(query, h), size, keys, shards)
        inputs = [blocks_first(x, size) for x in (query, ids)]
        # [b, C, ...] -> [C, b, ...].
        inputs += [jnp.moveaxis(x, 1, 0) for x in around]
        out = each_block(of_block, inputs, at_once, dropout.rng, shard)
    if not side:
        return split_heads(out, h)
    rest = h, scale, dropout, shards, shard, kernels
    global_rows = _global_rows(fronts, key, value, ids, *rest)
    if shard.axis_name is not None:
        local_globals = count * blocks.num_globals
        first = jax.lax.axis_index(shard.axis_name) * local_globals
        global_rows = blocking.slice_axis(global_rows, first, local_globals, 1)
    # [b, C, globals, h * d] in place of the first ones of [b, C, size, h * d].
    global_rows, out = (blocking.blocks(x, count, 1) for x in (global_rows, out))
    out = jnp.concatenate([global_rows, out[:, :, blocks.num_globals :]], axis=2)
    return split_heads(blocking.unblock(out, 1), h)


def _blocks_by_kernels(
    kernels, query, ids, window, side, h: int, scale, dropout: Dropout
) -> Array:
    """Attention of all blocks, each of which is an example of its own.

    What a block sees is written out, up to twice the keys or so: kernels of windows
    would have 128 queries read all keys that are a block or more to each side.

    Args:
      kernels: name, and mesh axes that batch and heads are split over.
      query: `[b, n, h * d]`.
      ids: int `[b, n]`.
      window: keys, values and ids of each block, `[b, C, w, ...]`.
      side: of the global tokens `[b, g, ...]`, which all blocks see; () for none.
      h: heads.
      scale: of the products.
      dropout: of probabilities.
    """
    b, count = window[0].shape[:2]
    if side:
        # [b, g, ...] -> [b, C, g, ...], beside the windows.
        side = [jnp.broadcast_to(x[:, None], (b, count, *x.shape[1:])) for x in side]
        pairs = zip(side, window, strict=True)
        window = [jnp.concatenate(parts, axis=2) for parts in pairs]
    query, ids = (blocking.blocks(x, count, 1) for x in (query, ids))
    # [b, C, ...] -> [b * C, ...], so that devices have whole rows of the batch.
    query, ids, key, value, key_ids = (
        blocking.unblock(x, 0) for x in (query, ids, *window)
    )
    query, key, value = (split_heads(x, h) for x in (query, key, value))
    rows = query, ids, key, value, key_ids
    out = join_heads(_all_keys(kernels, *rows, scale, dropout))
    # [b * C, size, h * d] -> [b, n, h * d].
    return blocking.unblock(blocking.blocks(out, b, 0), 1)


def _all_keys(
    kernels,
    query,
    query_ids,
    key,
    value,
    ids,
    scale,
    dropout,
    shards=1,
    shard=WHOLE_SEQUENCE,
) -> Array:
    """Rows over all keys of their example."""
    return full.some_rows(
        query,
        key,
        value,
        of_examples(query_ids),
        of_examples(ids),
        causal=False,
        scale=scale,
        dropout=dropout,
        shards=shards,
        shard=shard,
        kernels=kernels,
    )


def _fronts(x: Array, blocks: Blocks, shard: SequenceShard) -> Array:
    """The global tokens: `[b, n, ...]` -> `[b, blocks * globals, ...]`."""
    fronts = blocking.blocks(x, x.shape[1] // blocks.size, 1)[
        :, :, : blocks.num_globals
    ]
    fronts = blocking.unblock(fronts, 1)
    if shard.axis_name is None:
        return fronts
    return jax.lax.all_gather(fronts, shard.axis_name, axis=1, tiled=True)


def _global_rows(
    fronts, key, value, ids, h, scale, dropout, shards, shard, kernels
) -> Array:
    """Attention of all global tokens to everything."""
    query, _, _, query_ids = fronts
    query, key, value = (split_heads(x, h) for x in (query, key, value))
    rows = query, query_ids, key, value, ids
    out = _all_keys(kernels, *rows, scale, dropout.stream(1), shards, shard)
    return join_heads(out)


def _checked_ids(query, key, value, example_ids) -> Array:
    """int `[b, n]` of the tokens.

    Raises:
      ValueError: if arrays do not fit together.
    """
    check_rows(query, key, value, example_ids)
    check_one_length(query, key)
    if example_ids is None:
        return jnp.ones(query.shape[:2], jnp.int32)
    return jnp.asarray(example_ids)


def _check_blocks(blocks: Blocks) -> None:
    if blocks.size < 1 or not 0 <= blocks.num_globals <= blocks.size:
        raise ValueError(
            f"{blocks}; expected a size of 1 or more, and 0 to that many global tokens"
        )


def _check_pool(pool: Pool) -> None:
    fits = pool.kernel >= 1 and pool.stride >= 1
    if not fits or not 0 <= pool.padding <= pool.kernel // 2:
        raise ValueError(
            f"{pool}; expected kernel and stride of 1 or more, and a padding of half "
            "the kernel at most"
        )
