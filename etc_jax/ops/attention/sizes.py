"""How large the blocks are that attention works on, and how many at once."""

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
        if x is not None and x < 1:
            raise ValueError(f"{name} must be at least 1, got {x}")
    if block_size is None:
        block_size = 64 if radius <= 128 else 128
    block_size = min(block_size, max(n, 1))
    if chunk_blocks is None:
        rows = -(-rows // shards)
        logits = 4 * rows * block_size * (block_size + 2 * radius + g)
        chunk_blocks = max(1, blocking.step_bytes() // logits)
    return block_size, min(chunk_blocks, max(1, -(-n // block_size)))
