"""Block-sparse attention of BigBird (Zaheer et al. 2020), the internal form (ITC).

    output = attend(query, key, value, block_size=64, random_blocks=ids)

The sequence is cut into blocks. The first and the last see everything and are seen by
all; any other block sees itself, its neighbours, these two, and some blocks drawn at
random, all in one softmax. A block that is drawn although it is seen anyway counts once
more, as in the authors' code and in transformers.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from etc_jax.ops import blocking
from etc_jax.ops.attention import full
from etc_jax.ops.attention.block_rows import Blocks, block_rows
from etc_jax.ops.attention.checks import check_implementation, check_rows
from etc_jax.ops.attention.full import Dropout
from etc_jax.ops.attention.inline_pairs import Tokens
from etc_jax.ops.attention.pairs import Place
from etc_jax.ops.attention.softmax import Options

Array = jax.Array


def attend(
    query: Array,
    key: Array,
    value: Array,
    *,
    block_size: int,
    random_blocks: Array | None = None,
    example_ids: Array | None = None,
    implementation: str = "auto",
    dropout_rate: float = 0.0,
    dropout_rng: Array | None = None,
    chunk_blocks: int | None = None,
    shards: int = 1,
) -> Array:
    """Attention of blocks to blocks.

    Args:
      query: `[b, n, h, d]`, any n; scores are divided by sqrt(d).
      key: likewise.
      value: likewise.
      block_size: tokens of a block; the last may have fewer.
      random_blocks: int `[h or 1, blocks - 2, r]`, what each block but the first and
        the last sees besides, in 0..blocks - 1; None: nothing.
      example_ids: int `[b, n]`; 0 is padding, whose rows are zero, and packed examples
        do not see each other; None: one example.
      implementation: "xla" (linear in n), "dense" (quadratic, the oracle), "auto".
      dropout_rate: of attention probabilities; needs `dropout_rng`.
      dropout_rng: key, or None to leave dropout out.
      chunk_blocks: blocks at once; default by the size of their logits.
      shards: devices that batch and heads are split over.

    Returns:
      `[b, n, h, d]`.

    Raises:
      ValueError: if shapes or options do not fit together.
    """
    check_implementation(implementation)
    check_rows(query, key, value, example_ids)
    dropout = Dropout.make(dropout_rate, dropout_rng)
    b, n, h, d = query.shape
    if block_size < 1 or (chunk_blocks is not None and chunk_blocks < 1):
        raise ValueError(
            f"block_size is {block_size} and chunk_blocks {chunk_blocks}; expected at "
            "least 1"
        )
    if not n:
        return query
    if example_ids is None:
        example_ids = jnp.ones((b, n), jnp.int32)
    count = -(-n // block_size)
    inner = max(count - 2, 0)
    if random_blocks is None:
        random_blocks = jnp.zeros((1, inner, 0), jnp.int32)
    if random_blocks.ndim != 3 or random_blocks.shape[:2] not in (
        (1, inner),
        (h, inner),
    ):
        raise ValueError(
            f"random_blocks has shape {random_blocks.shape}, expected ({h} or 1, "
            f"{inner}, r) for {n} tokens in blocks of {block_size}"
        )

    def whole(x):
        return blocking.pad_axis(x, 1, 0, count * block_size - n)

    rows = [whole(x) for x in (query, key, value)]
    ids = whole(example_ids)
    if implementation == "dense":
        out = _dense(*rows, ids, random_blocks, block_size, dropout.dense())
        return out[:, :n]
    out = jnp.zeros_like(rows[0])
    if inner:
        r = random_blocks.shape[2]
        logits = 4 * -(-b * h // shards) * block_size**2 * (5 + r)
        if chunk_blocks is None:
            chunk_blocks = max(1, blocking.step_bytes() // logits)
        options = Options(d**-0.5, block_size, min(chunk_blocks, inner), dropout.rate)
        heads = [jnp.swapaxes(x, 1, 2) for x in rows]
        drawn = jnp.broadcast_to(random_blocks, (h, inner, r))
        blocks = Blocks(ids, drawn.astype(jnp.int32))
        draws = dropout.stream(0).draws(0)
        out = jnp.swapaxes(block_rows(options, *heads, blocks, draws), 1, 2)
    ends = functools.partial(_ends, size=block_size, count=count)
    place = jnp.broadcast_to(jnp.arange(ids.shape[1], dtype=jnp.int32), ids.shape)
    tokens = Tokens(ids, place, jnp.zeros(ids.shape, bool))
    found = full.some_rows(
        ends(rows[0]),
        *rows[1:],
        jax.tree.map(ends, tokens),
        tokens,
        causal=False,
        dropout=dropout.stream(1),
        shards=shards,
        place=Place(),
    )
    if count == 1:
        return found[:, :n]
    first, last = found[:, :block_size], found[:, block_size:]
    middle = out[:, block_size : (count - 1) * block_size]
    return jnp.concatenate([first, middle, last], axis=1)[:, :n]


def _ends(x: Array, size: int, count: int) -> Array:
    """The first and the last block of `[b, places, ...]`, or the only one."""
    if count == 1:
        return x
    return jnp.concatenate([x[:, :size], x[:, -size:]], axis=1)


def meetings(random_blocks: Array, count: int) -> Array:
    """How often each block sees each block: int `[h or 1, count, count]`.

    Args:
      random_blocks: see `attend`.
      count: of all blocks.
    """
    own, other = (jnp.arange(count)[:, None], jnp.arange(count)[None])
    is_end = (own == 0) | (own == count - 1)
    seen = is_end | (jnp.abs(own - other) <= 1) | (other == 0) | (other == count - 1)
    met = jnp.broadcast_to(
        seen.astype(jnp.int32), (random_blocks.shape[0], count, count)
    )
    if count < 3:
        return met
    drawn = random_blocks[..., None] == jnp.arange(count)[None, None, None]
    return met.at[:, 1:-1].add(drawn.sum(2, dtype=jnp.int32))


def _dense(query, key, value, example_ids, random_blocks, block_size, dropout):
    """The oracle: every pair, which counts as often as its blocks meet."""
    n = query.shape[1]
    met = meetings(random_blocks, n // block_size)
    met = met.repeat(block_size, 1).repeat(block_size, 2)[None]
    real = example_ids[:, None, None] > 0
    same = example_ids[:, None, :, None] == example_ids[:, None, None]
    met = jnp.where(same & real, met, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
    scores = scores / jnp.sqrt(jnp.asarray(query.shape[-1], query.dtype))
    top = jnp.max(jnp.where(met > 0, scores, -1e30), axis=-1, keepdims=True)
    weights = met * jnp.exp(jnp.where(met > 0, scores - top, -1e30))
    total = weights.sum(-1, keepdims=True)
    probabilities = weights / jnp.where(total > 0, total, 1)
    if dropout is not None:
        probabilities = dropout(probabilities)
    return jnp.einsum("bhqk,bkhd->bqhd", probabilities, value)
