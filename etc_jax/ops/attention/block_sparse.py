"""Block-sparse attention of BigBird (Zaheer et al. 2020), in both of its forms.

    output = attend(query, key, value, block_size=64, random_blocks=ids)
    output = attend(query, key, value, block_size=64, num_globals=256)

The internal form (ITC): the sequence is cut into blocks. The first and the last see
everything and are seen by all; any other block sees itself, its neighbours, these two,
and some blocks drawn at random, all in one softmax.

The extended form (ETC): the first tokens are global. They see everything and are seen
by all. The other tokens are cut into blocks, each of which sees itself, its neighbours,
the global tokens, and the blocks drawn for it.

A block that is drawn although it is seen anyway counts once more, as in the authors'
code and in transformers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from etc_jax.base.types import WHOLE, MeshAxes
from etc_jax.ops import blocking
from etc_jax.ops.attention import dense, full
from etc_jax.ops.attention.kernels import block_sparse as by_kernels, choice
from etc_jax.ops.attention.parts.block_parts import BAND, BlockOptions, Blocks
from etc_jax.ops.attention.parts.block_rows import block_rows
from etc_jax.ops.attention.parts.checks import check_one_length, check_rows
from etc_jax.ops.attention.parts.dropout import Dropout
from etc_jax.ops.attention.parts.inline_pairs import of_examples
from etc_jax.ops.attention.parts.pairs import SequenceShard
from etc_jax.ops.attention.parts.sizes import even_chunk
from etc_jax.ops.blocking import join_heads, split_heads

Array = jax.Array


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    block_size: int,
    num_globals: int = 0,
    random_blocks: Array | None = None,
    example_ids: Array | None = None,
    scale: float | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    chunk_blocks: int | None = None,
    shards: int = 1,
    mesh_axes: MeshAxes = WHOLE,
) -> Array:
    """Attention of blocks to blocks.

    Args:
      query: `[b, n, h, d]`, any n.
      key: `[b, n, h, d]`, any n.
      value: `[b, n, h, d]`, any n.
      block_size: tokens of a block; the last may have fewer.
      num_globals: tokens in front that are global; of a sequence that has no more, all
        are. 0: the internal form.
      random_blocks: int `[h or 1, drawing blocks, r]`, what each of the blocks of
        `drawing_blocks` sees besides, in 0..blocks - 1; None: nothing. With global
        tokens block 0 is the first after them, and -1 is none.
      example_ids: int `[b, n]`; 0 is padding, whose rows are zero, and packed examples
        do not see each other; None: one example.
      scale: of the products; None: 1 / sqrt(d).
      implementation: "xla" (linear in n), "mosaic" (kernels for TPUs), "dense"
        (quadratic, the oracle), "auto": see `kernels.choice`.
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      chunk_blocks: blocks at once; default by the size of their logits.
      shards: devices that batch and heads are split over.
      mesh_axes: mesh axes that they are split over: kernels need to know.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_rows(query, key, value, example_ids)
    check_one_length(query, key)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    b, n, h, d = query.shape
    if scale is None:
        scale = d**-0.5
    _check_sizes(block_size, chunk_blocks, num_globals)
    problems = by_kernels.problems(block_size, n + num_globals, scale)
    split = {"sequence_axis": None, "mesh_axes": mesh_axes, "shards": shards}
    kernels = choice.choose_kernels(implementation, query, problems, **split)
    if not n:
        return query
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    drawing = drawing_blocks(n, block_size, num_globals)
    if random_blocks is None:
        random_blocks = jnp.zeros((1, drawing, 0), jnp.int32)
    _check_random_blocks(random_blocks.shape, h, n, block_size, num_globals)
    globals_ = min(num_globals, n)

    # What follows the global tokens becomes whole blocks of s places:
    # [b, n, ...] -> [b, places, ...], places = globals + blocks * s.
    def whole(x):
        return blocking.pad_axis(x, 1, 0, -(n - globals_) % block_size)

    rows = [whole(join_heads(x)) for x in (query, key, value)]
    # Ids of numpy cannot be looked up at places that are traced.
    # Padding has id 0: nothing sees it, and its rows are zero.
    ids = whole(jnp.asarray(example_ids))
    random_blocks = jnp.asarray(random_blocks, jnp.int32)
    if implementation == "dense":
        # Counts [b, h or 1, places, places] become a mask and log-count biases.
        met = _met(ids, random_blocks, block_size, globals_)
        drop = dropout.dense()
        pairs = dense.counted(met, query.dtype)
        rows = [split_heads(x, h) for x in rows]
        return dense.attend(*rows, *pairs, scale=scale, dropout=drop)[:, :n]
    how = {
        "scale": scale,
        "dropout": dropout,
        "shards": shards,
        "kernels": None if kernels is None else (kernels, mesh_axes),
    }
    # Rows that do not see everything: [b, drawing * s, h * d]; none so far.
    inner = rows[0][:, :0]
    if drawing:
        blocks = Blocks(ids, random_blocks)
        sizes = block_size, globals_
        inner = _inner_rows(rows, h, blocks, *sizes, chunk_blocks, **how)
    full_rows = _full_rows(rows, h, ids, globals_, block_size, **how)
    # Globals, then inner rows; or first block, inner rows, last block. Cut to n.
    front = globals_ or block_size
    parts = [full_rows[:, :front], inner, full_rows[:, front:]]
    return split_heads(jnp.concatenate(parts, axis=1)[:, :n], h)


def _check_sizes(block_size: int, chunk_blocks: int | None, num_globals: int) -> None:
    if block_size < 1 or (chunk_blocks is not None and chunk_blocks < 1):
        raise ValueError(
            f"block_size is {block_size} and chunk_blocks {chunk_blocks}; expected at "
            "least 1"
        )
    if num_globals < 0:
        raise ValueError(f"num_globals is {num_globals}; expected 0 or more")


def _check_random_blocks(shape, h: int, n: int, block_size: int, num_globals: int):
    drawing = drawing_blocks(n, block_size, num_globals)
    if len(shape) != 3 or shape[:2] not in ((1, drawing), (h, drawing)):
        after = f" after {num_globals} global ones" if num_globals else ""
        raise ValueError(
            f"random_blocks has shape {shape}, expected ({h} or 1, {drawing}, r) for "
            f"{n} tokens in blocks of {block_size}{after}"
        )


def _full_rows(
    rows, h: int, ids: Array, num_globals: int, block_size: int, **options
) -> Array:
    """Rows that see everything: `[b, globals, h * d]`, or of both ends.

    These are `[b, 2s, h * d]`; of a single block, `[b, s, h * d]`.
    """

    def seers(x):
        return x[:, :num_globals] if num_globals else _ends(x, block_size)

    tokens = of_examples(ids)
    options["dropout"] = options["dropout"].stream(1)
    rows = [split_heads(x, h) for x in (seers(rows[0]), *rows[1:])]
    out = full.some_rows(
        *rows,
        jax.tree.map(seers, tokens),
        tokens,
        causal=False,
        shard=SequenceShard(),
        **options,
    )
    return join_heads(out)


def drawing_blocks(length: int, block_size: int, num_globals: int = 0) -> int:
    """How many blocks do not see everything: each may see some more, at random.

    Args:
      length: tokens.
      block_size: see `attend`.
      num_globals: see `attend`.
    """
    blocks = -(-max(length - num_globals, 0) // block_size)
    return blocks if num_globals else max(blocks - 2, 0)


def _ends(x: Array, size: int) -> Array:
    """The first and the last block of `[b, places, ...]`, or the only one."""
    if x.shape[1] == size:
        return x
    return jnp.concatenate([x[:, :size], x[:, -size:]], axis=1)


def _inner_rows(
    rows: list[Array],
    h: int,
    blocks: Blocks,
    block_size: int,
    num_globals: int,
    chunk_blocks: int | None,
    *,
    scale: float,
    dropout: Dropout,
    shards: int,
    kernels: tuple[str, MeshAxes] | None,
) -> Array:
    """Attention of the blocks that do not see everything.

    Args:
      rows: query, key and value, `[b, num_globals + blocks * block_size, h * d]`.
      h: heads.
      blocks: of them, with what was drawn for all heads or for each.
      block_size: see `attend`.
      num_globals: see `attend`.
      chunk_blocks: see `attend`.
      scale: see `attend`.
      dropout: of probabilities.
      shards: see `attend`.
      kernels: that do it, and the mesh axes that batch and heads are split over.

    Returns:
      `[b, drawing blocks * block_size, h * d]`.
    """
    ids, drawn = blocks
    # Internal form: blocks 0 and last are common; inner rows start with block 1.
    first, common = 1, (0, ids.shape[1] // block_size - 1)
    if num_globals:
        # Extended form: `first` blocks of globals, the drawing blocks, one of padding.
        # [b, places, h * d] -> [b, (first + drawing + 1) * s, h * d].
        rows = [_fenced(x, block_size, num_globals) for x in rows]
        ids = _fenced(ids, block_size, num_globals)
        first = -(-num_globals // block_size)
        common = tuple(range(first))
        # None is the block of padding after the last.
        drawn = jnp.where(drawn < 0, drawn.shape[1], drawn) + first
    rows = [split_heads(x, h) for x in rows]
    b, (_, drawing, r) = len(ids), drawn.shape
    if chunk_blocks is None:
        # Keys of a block's logits: the band, the common blocks and the drawn ones.
        keys = (BAND + len(common) + r) * block_size
        chunk_blocks = even_chunk(drawing, b * h, block_size, keys, shards)
    options = BlockOptions(
        scale,
        block_size,
        min(chunk_blocks, drawing),
        dropout.rate,
        first=first,
        common=common,
    )
    blocks = Blocks(ids, jnp.broadcast_to(drawn, (h, drawing, r)))
    dropout = dropout.stream(0)
    if kernels is not None:
        name, mesh_axes = kernels
        out = by_kernels.attend(name, options, *rows, blocks, dropout, mesh_axes)
        return join_heads(out)
    heads = [jnp.swapaxes(x, 1, 2) for x in rows]
    out = block_rows(options, *heads, blocks, dropout.draws(0))
    # [b, h, places, d] -> [b, drawing * s, h * d]: rows of other blocks are zeros.
    out = jnp.swapaxes(out, 1, 2)[:, first * block_size : -block_size]
    return join_heads(out)


def _fenced(x: Array, block_size: int, num_globals: int) -> Array:
    """`[b, places, ...]` with padding after the global tokens, and after all.

    Global tokens become whole blocks. The first block that is not global has one of
    these on its left, which it sees anyway; the last has one of padding on its right.
    """
    front = blocking.pad_axis(x[:, :num_globals], 1, 0, -num_globals % block_size)
    rest = blocking.pad_axis(x[:, num_globals:], 1, 0, block_size)
    return jnp.concatenate([front, rest], axis=1)


def meetings(random_blocks: Array, count: int, *, ends: bool) -> Array:
    """How often each block sees each block: int `[h or 1, count, count]`.

    Args:
      random_blocks: see `attend`.
      count: of all blocks.
      ends: the first and the last see everything and are seen by all.
    """
    query, key = (jnp.arange(count)[:, None], jnp.arange(count)[None])
    seen = jnp.abs(query - key) <= 1
    for end in (0, count - 1) if ends else ():
        seen |= (query == end) | (key == end)
    met = jnp.broadcast_to(
        seen.astype(jnp.int32), (random_blocks.shape[0], count, count)
    )
    # [h, drawing, r, count], summed over r: each draw counts once more; -1 is none.
    drawn = random_blocks[..., None] == jnp.arange(count)[None, None, None]
    drawing = slice(1, -1) if ends else slice(None)
    return met.at[:, drawing].add(drawn.sum(2, dtype=jnp.int32))


def _met(example_ids, random_blocks, block_size: int, num_globals: int) -> Array:
    """How often each token sees each token: int `[b, h or 1, places, places]`."""
    count = (example_ids.shape[1] - num_globals) // block_size
    met = meetings(random_blocks, count, ends=not num_globals)
    met = met.repeat(block_size, 1).repeat(block_size, 2)
    front = (num_globals, 0)
    # Globals see all and are seen by all, once: [1, h, places, places].
    met = jnp.pad(met, ((0, 0), front, front), constant_values=1)[None]
    real = example_ids[:, None, None] > 0
    same = example_ids[:, None, :, None] == example_ids[:, None, None]
    return jnp.where(same & real, met, 0)
