"""How large the blocks are that attention works on, and how many at once."""

from etc_jax.base.rules import at_least
from etc_jax.ops import blocking


def block_sizes(
    n: int,
    g: int,
    radius: int,
    rows: int,
    block_size: int | None = None,
    chunk_blocks: int | None = None,
    shards: int = 1,
) -> tuple[int, int]:
    """(block_size, chunk_blocks): as given, or chosen for the device.

    Args:
      n: long tokens.
      g: keys that every block sees besides its window.
      radius: of the window.
      rows: batch times heads.
      block_size: long rows of a block; None: near the radius.
      chunk_blocks: blocks at once; None: by the size of their logits.
      shards: devices that the rows are split over.

    Raises:
      ValueError: if one of both is given and below 1.
    """
    for name, x in (("block_size", block_size), ("chunk_blocks", chunk_blocks)):
        if x is not None:
            at_least(1).check(**{name: x})
    if block_size is None:
        # Of the block_size + 2r keys of a window a row sees 2r + 1: the rest is waste.
        block_size = 64 if radius <= 128 else 128
    block_size = min(block_size, max(n, 1))
    count = max(1, -(-n // block_size))
    if chunk_blocks is None:
        keys = block_size + 2 * radius + g
        return block_size, even_chunk(count, rows, block_size, keys, shards)
    return block_size, min(chunk_blocks, count)


def even_chunk(count: int, rows: int, block_size: int, keys: int, shards: int) -> int:
    """Blocks at once, so that chunks of one size hold them with little padding.

    The logits of a chunk, in float32, have at most the bytes that a step should have,
    but for one block that alone has more. Of the numbers of chunks from the least
    possible to just below twice that, the one with the least padding; to just below
    four times that, if otherwise more than a sixteenth were padding.

    Args:
      count: blocks in all, at least 1.
      rows: batch times heads.
      block_size: queries of a block.
      keys: that each of them sees.
      shards: devices that the rows are split over.
    """
    logits = 4 * -(-rows // shards) * block_size * keys
    # Steps, if each has as many blocks as it may.
    least = -(-count // max(1, blocking.step_bytes() // logits))
    for reach in (2, 4):
        steps = range(least, min(reach * least, count + 1))
        # Least blocks with padding, then fewest steps; of these the size of a chunk.
        chunk = min((-(-count // s) * s, s, -(-count // s)) for s in steps)[2]
        if -count % chunk <= count / 16:
            break
    return chunk
