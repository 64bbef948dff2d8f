"""Fixed blocks: a global token for so many long ones, whatever they are.

An ablation of the ETC paper (section 4.2); there is no other global token.
"""

from __future__ import annotations

import numpy as np

from etc_jax.base.rules import at_least
from etc_jax.formats.structured import StructuredSizes


def check(tokens_per_block: int | None) -> None:
    """Refuses blocks of no token; None: there are no fixed blocks.

    Raises:
      ValueError: if they are such.
    """
    if tokens_per_block is not None:
        at_least(1).check(tokens_per_block=tokens_per_block)


def check_room(tokens_per_block: int, sizes: StructuredSizes) -> None:
    """Refuses sizes in which the blocks of a full input have no room.

    Raises:
      ValueError: naming the global length that they need.
    """
    need = len(block_lengths(sizes.long_length, tokens_per_block))
    if sizes.global_length < need:
        raise ValueError(
            f"global_length is {sizes.global_length}, expected {need} at least, for "
            f"{sizes.long_length} long tokens in blocks of {tokens_per_block}"
        )


def block_lengths(num_tokens: int, tokens_per_block: int) -> np.ndarray:
    """Tokens of each block, all full but the last: int `[blocks]`."""
    starts = np.arange(0, num_tokens, tokens_per_block)
    return np.diff(starts, append=num_tokens)
