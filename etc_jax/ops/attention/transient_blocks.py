"""Blocks of tokens whose sums all tokens see (LongT5's transient global attention).

Guo et al. 2022, section 3.2.2. Nothing stays from layer to layer: each makes its global
keys anew, as the sums of its input over fixed blocks.

    blocks = blocks_of(example_ids, block_size)
    sums = block_sums(x, blocks)  # of which keys and values are made
    side_keys = SideKeys(keys, values, blocks.example, side_bias(bias, blocks))
    output = sliding_window.attend(query, key, value, side_keys=side_keys, ...)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from etc_jax.ops.attention.bias import BiasFn, SideBias, toeplitz

Array = jax.Array


class Blocks(NamedTuple):
    """Blocks of the examples of a batch, numbered through each row.

    Attributes:
      of_token: int32 `[b, n]`, the block of each token; -1: none.
      example: int32 `[b, g]`, the example of each block; 0: there is no such block.
    """

    of_token: Array
    example: Array


def blocks_of(example_ids: Array, block_size: int) -> Blocks:
    """The whole blocks of each example, from its first token on.

    The tokens left over at its end join its last block. An example that is shorter than
    a block has none, nor has padding.

    Args:
      example_ids: int `[b, n]`, examples one after the other; 0 is padding.
      block_size: tokens of a block.

    Returns:
      Blocks, with g = n // block_size.
    """
    b, n = example_ids.shape
    ids = example_ids.astype(jnp.int32)
    position = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (b, n))
    edge = jnp.full((b, 1), -1, jnp.int32)
    # bool [b, n]: the first and the last token of each example.
    starts = ids != jnp.concatenate([edge, ids[:, :-1]], axis=1)
    ends = ids != jnp.concatenate([ids[:, 1:], edge], axis=1)
    first = jax.lax.cummax(jnp.where(starts, position, 0), axis=1)
    last = jax.lax.cummin(jnp.where(ends, position, n), axis=1, reverse=True)
    # Whole blocks of each token's example, and of the examples before it.
    whole = jnp.where(ids > 0, (last - first + 1) // block_size, 0)
    closed = jnp.where(ends, whole, 0)
    before = jnp.cumsum(closed, axis=1, dtype=jnp.int32) - closed
    block = jnp.minimum((position - first) // block_size, whole - 1)
    of_token = jnp.where(whole > 0, before + block, -1)
    blocks = n // block_size
    # Tokens without a block go to one that does not exist.
    index = jnp.where(of_token < 0, blocks, of_token)

    def largest(ids, index):
        return jnp.zeros(blocks, jnp.int32).at[index].max(ids, mode="drop")

    return Blocks(of_token, jax.vmap(largest)(ids, index))


def block_sums(x: Array, blocks: Blocks) -> Array:
    """Sums of rows over blocks, in float32 or wider.

    Args:
      x: `[b, n, e]`.
      blocks: of these tokens.

    Returns:
      `[b, g, e]`; zeros where there is no block.
    """
    count = blocks.example.shape[1]
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    index = jnp.where(blocks.of_token < 0, count, blocks.of_token)

    def total(rows, index):
        zeros = jnp.zeros((count, rows.shape[1]), rows.dtype)
        return zeros.at[index].add(rows, mode="drop")

    # [n, e] -> [g, e], mapped over the batch so that it stays split over devices.
    return jax.vmap(total)(wide, index)


def side_bias(bias: BiasFn, blocks: Blocks) -> SideBias:
    """What each token adds to its logits with blocks, by their offset from its own.

    Args:
      bias: function of offsets in blocks.
      blocks: of the tokens.

    Returns:
      a row for the tokens of each block, and one for those without, `[g + 1, h or 1,
      g]`.
    """
    count = blocks.example.shape[1]
    # [h or 1, 2 * g], of the offsets from block g - 1 to 0 up to those from none.
    values = bias(jnp.arange(1 - count, count + 1, dtype=jnp.int32))
    # [h or 1, g + 1, g]: row m is of block m - 1, so that key k is k - m + 1 away.
    rows = jnp.swapaxes(toeplitz(values, count, count + 1), 1, 2)
    return SideBias(jnp.swapaxes(rows, 0, 1)[None], blocks.of_token + 1, values)
