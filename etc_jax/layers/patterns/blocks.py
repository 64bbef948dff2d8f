"""Blocks that overlap or have global tokens, and averages behind them (BART-LS)."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.projections import HeadProjections
from etc_jax.layers.self_attention import Pattern, Projected, SequenceInputs
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.pooled_block import Pool
from etc_jax.ops.flops import attention, pairs_between, pairs_within, projection


@dataclasses.dataclass(frozen=True)
class Blocks(Pattern):
    """Blocks (Xiong et al. 2022, section 2.1); see `pooled_block.attend`.

    Attributes:
      blocks: their size, what of their neighbours they see, their global tokens.
    """

    splits_sequence: ClassVar[bool] = True
    kernel_problem: ClassVar[None] = None
    packing_problem: ClassVar[str] = (
        "the blocks and averages of this encoder are those of a row, whatever lies in "
        "it"
    )

    blocks: pooled_block.Blocks

    @property
    def full_attention_length(self) -> int:
        """See `Pattern`."""
        return self.blocks.size

    def attend(
        self, layer, projected: Projected, inputs: SequenceInputs, per_layer=None
    ) -> jax.Array:
        """See `Pattern.attend`."""
        del per_layer
        return pooled_block.attend(
            *projected.rows,
            blocks=self.blocks,
            sequence_axis=sharding.sequence_axis(),
            mesh_axes=sharding.mesh_axes(),
            **layer.options(),
            example_ids=inputs.example_ids,
        )

    def visible_pairs(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.visible_pairs`."""
        ids, blocks = np.asarray(inputs.example_ids), self.blocks
        index = np.arange(ids.shape[1])
        is_global = index % blocks.size < blocks.num_globals
        others, globals_ = (np.where(keep, ids, 0) for keep in (~is_global, is_global))
        first = index // blocks.size * blocks.size
        last = first + blocks.size - 1
        near = pairs_within(others, first - blocks.reach, last + blocks.reach)
        return near + pairs_between(others, globals_) + pairs_between(globals_, ids)


@dataclasses.dataclass(frozen=True)
class Pooled(Blocks):
    """Blocks, and behind them a second attention, to averages of their rows.

    Attributes:
      pool: see `pooled_block.attend_pooled`.
    """

    pool: Pool

    def module(self, *, name: str, **options: Any) -> nn.Module:
        """See `Pattern.module`."""
        blocks = Blocks(self.blocks)
        pool = {k: v for k, v in options.items() if k != "cache_length"}
        return PooledAttention(
            lambda name: blocks.module(name=name, **options),
            lambda name: PoolAttention(pool=self.pool, **pool, name=name),
            name=name,
        )

    def flops(self, config: Any, inputs: SequenceInputs) -> float:
        """See `Pattern.flops`: with attention to averages, and its maps."""
        lengths = np.sum(np.asarray(inputs.example_ids) > 0, axis=1)
        pairs = sum(int(n) * self.pool.count(int(n)) for n in lengths)
        inner = config.num_heads * config.attention_head_dim
        maps = projection(4 * int(np.sum(lengths)), config.embed_dim, inner)
        return super().flops(config, inputs) + maps + attention(pairs, config)


class PoolAttention(HeadProjections):
    """Multi-head attention of tokens to averages of their keys and values.

    Attributes:
      pool: the averages.
    """

    pool: Pool = Pool(18, 12, 9)

    @nn.compact
    def __call__(self, x: jax.Array, inputs: SequenceInputs) -> jax.Array:
        """`[b, n, e]` -> the same shape; rows hold one example each."""
        # [b, n, e] -> [b, n, h, d].
        rows = (self.project(name, x) for name in ("query", "key", "value"))
        heads = pooled_block.attend_pooled(
            *rows,
            pool=self.pool,
            example_ids=inputs.example_ids,
            sequence_axis=sharding.sequence_axis(),
            mesh_axes=sharding.mesh_axes(),
            **self.options(),
        )
        return self.joined(heads, x.shape[-1])


class PooledAttention(nn.Module):
    """a + pool(a) of a = blocks(x) (Xiong et al. 2022, section 2.1 and figure 1).

    Attributes:
      blocks: makes the attention in blocks, given its name.
      pool: makes the attention to averages, given its name.
    """

    blocks: Callable[[str], nn.Module]
    pool: Callable[[str], nn.Module]

    @nn.compact
    def __call__(
        self, x: jax.Array, inputs: SequenceInputs, per_layer=None, state=None
    ) -> Any:
        """`[b, n, e]` -> (the same shape, the state of the attention in blocks)."""
        x, state = self.blocks("blocks")(x, inputs, per_layer, state)
        return x + self.pool("pool")(x, inputs), state
