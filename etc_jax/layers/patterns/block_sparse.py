"""Blocks of tokens that see their neighbours, some at random, and global ones."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import sharding
from etc_jax.base.rules import choice
from etc_jax.layers.patterns.full import Full
from etc_jax.layers.self_attention import Projected, SequenceInputs
from etc_jax.ops.attention import block_sparse
from etc_jax.ops.attention.parts import random_blocks

# When random blocks are drawn; see `BlockSparse.drawn`.
MOMENTS = choice(("training", "always", "never"))


@dataclasses.dataclass(frozen=True)
class BlockSparse(Full):
    """Blocks (Zaheer et al. 2020); see `block_sparse.attend`.

    Sequences of `full_attention_length` are attended whole.

    Attributes:
      block_size: tokens of a block.
      num_random: blocks that each block sees besides.
      num_globals: tokens in front that are global; 0: the first and the last block are.
      drawn: when the random blocks are those drawn (`parts.random_blocks`), of
        `MOMENTS`; "training" as transformers, "always" as Google's code.
      max_length: longest sequence, on which the draw of the released models depends.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"random_blocks"})
    packing_problem: ClassVar[str] = (
        "the blocks of this encoder are those of a row, whatever lies in it"
    )

    block_size: int
    num_random: int
    num_globals: int = 0
    drawn: str = "training"
    max_length: int = 4096

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`.

        Behind global tokens these are two blocks, which see each other anyway.
        """
        if self.num_globals:
            return self.num_globals + 2 * self.block_size
        return (5 + 2 * self.num_random) * self.block_size

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`; `per_layer` as `random_blocks` of the op."""
        n = projected.x.shape[1]
        if n <= self.full_attention_length:
            return super().attend(layer, projected, inputs)
        if per_layer is None and not self.num_globals:
            # [1, drawing blocks, num_random]: the first block, so many times, as in
            # transformers. Behind global tokens, which it does not know: nothing.
            shape = (1, self._drawing_blocks(n), self.num_random)
            per_layer = jnp.zeros(shape, jnp.int32)
        return block_sparse.attend(
            *projected.rows,
            block_size=self.block_size,
            num_globals=self.num_globals,
            random_blocks=per_layer,
            mesh_axes=sharding.mesh_axes(),
            **layer.options(),
            example_ids=inputs.example_ids,
        )

    def _drawing_blocks(self, length: int) -> int:
        return block_sparse.drawing_blocks(length, self.block_size, self.num_globals)

    def draw(
        self, length: int, num_layers: int, num_heads: int, deterministic: bool
    ) -> np.ndarray | None:
        """See `Pattern.draw`: `[layers, heads, drawing blocks, num_random]`."""
        undrawn = {"training": deterministic, "always": False, "never": True}
        if length <= self.full_attention_length or undrawn[self.drawn]:
            return None
        if self.num_globals:
            return random_blocks.draw_after_globals(
                num_layers, num_heads, self._drawing_blocks(length), self.num_random
            )
        # The released draw depends on lengths in whole blocks, also on the longest.
        return random_blocks.draw(
            num_layers,
            num_heads,
            -(-length // self.block_size) * self.block_size,
            max_length=-(-self.max_length // self.block_size) * self.block_size,
            block_size=self.block_size,
            num_random=self.num_random,
        )

    def padding_limit(self, length: int) -> int:
        """See `Pattern`: the last block may be global, so their number must stay."""
        if length <= self.full_attention_length:
            return self.full_attention_length
        blocks = -(-(length - self.num_globals) // self.block_size)
        return self.num_globals + blocks * self.block_size

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`.

        Whole blocks count, of which no two of a row are the same: the neighbours, the
        global ones and the random ones.
        """
        ids = np.asarray(inputs.example_ids)
        if ids.shape[1] <= self.full_attention_length:
            return super().visible_pairs(config, inputs)
        return sum(self._pairs(int(n)) for n in np.sum(ids > 0, axis=1))

    def _pairs(self, n: int) -> float:
        """Of a sequence of n real tokens."""
        # Tokens that see all and are seen by all.
        held = self.num_globals or 2 * self.block_size
        near = min(n, held + (3 + self.num_random) * self.block_size)
        num_globals = min(n, held)
        return float(num_globals * n + (n - num_globals) * near)
