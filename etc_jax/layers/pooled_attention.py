"""Attention in blocks with a second one, to averages of what the first one gives."""

from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.projections import HeadProjections
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.ops.attention import pooled_block
from etc_jax.ops.attention.pooled_block import Pool


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
