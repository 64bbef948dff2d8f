"""Which blocks a block sees at random (Zaheer et al. 2020, appendix D).

The released models, of the internal form, were trained with one draw for each layer and
head, whose generator starts from the number of the layer. The same draw is made here,
with what is odd about it: only blocks near the beginning are drawn; of 1,024, 3,072 and
4,096 tokens the draw is that of the longest input, and the two blocks before its last
may be given neighbours. Behind global tokens, in the extended form, a block draws among
all that it does not see.
"""

from __future__ import annotations

import functools

import numpy as np

# Lengths of the paper's experiments, and the first tokens that are drawn from there.
_LENGTHS, _DRAWN = (1024, 3072, 4096), 1024
# Blocks that every block sees: itself, both neighbours, the first and the last one.
_SEEN = 5


@functools.lru_cache(maxsize=16)
def draw(
    num_layers: int,
    num_heads: int,
    length: int,
    *,
    max_length: int,
    block_size: int,
    num_random: int,
) -> np.ndarray:
    """The blocks of each layer.

    Args:
      num_layers: of the model; the draw of a layer depends on its number.
      num_heads: of each layer.
      length: tokens of the input, a multiple of `block_size` that is not attended
        whole: over 5 + 2 * num_random blocks.
      max_length: tokens of the model's longest input.
      block_size: tokens of a block.
      num_random: blocks drawn for each block but the first and the last.

    Returns:
      int32 `[num_layers, num_heads, length / block_size - 2, num_random]`, not to be
      written to.

    Raises:
      ValueError: if the length is no such multiple, or more than `max_length`.
    """
    blocks, rest = divmod(length, block_size)
    if rest or blocks <= _SEEN + 2 * num_random or length > max_length:
        raise ValueError(
            f"length is {length}; expected a multiple of {block_size}, over "
            f"{(_SEEN + 2 * num_random) * block_size} and up to {max_length}"
        )
    drawn_blocks = np.zeros((num_layers, num_heads, blocks - 2, num_random), np.int32)
    for layer, of_heads in enumerate(drawn_blocks):
        rng = np.random.RandomState(layer)
        if length in _LENGTHS:
            for rows in of_heads:
                rows[:] = _of_the_paper(
                    rng, max_length // block_size, block_size, num_random
                )[: blocks - 2]
        else:
            _of_other_lengths(rng, of_heads, blocks, num_random)
    # All callers share what the cache holds.
    drawn_blocks.flags.writeable = False
    return drawn_blocks


def _of_the_paper(rng, blocks: int, block_size: int, num_random: int) -> np.ndarray:
    """int `[blocks - 2, num_random]` of one head."""
    last = blocks - 1
    if _DRAWN > 2 * block_size:
        last = _DRAWN // block_size - 1
    # Neither the first block nor the last: all see these anyway.
    drawn_from = np.arange(1, min(last, blocks - 2) + 1, dtype=np.int32)
    rows = []
    for row in range(1, blocks - 1):
        far = np.abs(drawn_from - row) > 1
        # Of the last two, neighbours are not left out.
        allowed = drawn_from if row >= blocks - 3 else drawn_from[far]
        rows.append(rng.permutation(allowed)[:num_random])
    return np.stack(rows)


def _of_other_lengths(rng, of_heads: np.ndarray, blocks: int, num_random: int) -> None:
    """Fills `[heads, blocks - 2, num_random]` from the first blocks."""
    near = _SEEN + 2 * num_random
    for row in range(1, blocks):
        seen = {0, near - 1, row - 1, row, row + 1}
        # The second block and the one before the last see each other's side already.
        seen |= {1: {near - 2}, near - 2: {1}}.get(row, set())
        for rows in of_heads:
            drawn = rng.permutation(np.arange(near, dtype=np.int32))
            # One is drawn for the last block too, which sees everything.
            if row < blocks - 1:
                rows[row - 1] = [b for b in drawn if b not in seen][:num_random]


@functools.lru_cache(maxsize=16)
def draw_after_globals(
    num_layers: int, num_heads: int, num_blocks: int, num_random: int
) -> np.ndarray:
    """The blocks of each layer where the first tokens are global.

    Each block draws different ones, all with the same chance, among those that are
    neither itself nor one of its neighbours; where there are fewer than `num_random`,
    all of these, and -1 in the places that are left. As in `draw`, each head has a draw
    of its own, whose generator starts from the number of the layer.

    Args:
      num_layers: of the model.
      num_heads: of each layer.
      num_blocks: of the tokens after the global ones.
      num_random: blocks drawn for each block.

    Returns:
      int32 `[num_layers, num_heads, num_blocks, num_random]`, not to be written to.
    """
    drawn_blocks = np.full(
        (num_layers, num_heads, num_blocks, num_random), -1, np.int32
    )
    blocks = np.arange(num_blocks)
    for layer, of_heads in enumerate(drawn_blocks):
        rng = np.random.RandomState(layer)
        for rows in of_heads:
            for block, row in enumerate(rows):
                far = blocks[np.abs(blocks - block) > 1]
                drawn = rng.permutation(far)[:num_random]
                row[: len(drawn)] = drawn
    drawn_blocks.flags.writeable = False
    return drawn_blocks
