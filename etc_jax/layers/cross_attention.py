"""Attention of a decoder to the rows of an encoder (Vaswani et al. 2017)."""

import jax
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.chunked_attention import Sequence
from etc_jax.layers.projections import HeadProjections
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.ops.attention import full


class CrossAttention(HeadProjections):
    """Multi-head attention to another sequence, without a bias of positions.

    Attributes:
      scale: of the products; None: 1 / sqrt(head_dim).
      dropout_rate: of attention probabilities.
      implementation: see `ops.attention.full.attend`.
    """

    scale: float | None = None
    dropout_rate: float = 0.0
    implementation: str = "auto"
    deterministic: bool = True

    @nn.compact
    def __call__(
        self, x: jax.Array, inputs: SequenceInputs | Sequence
    ) -> tuple[jax.Array, None]:
        """`[b, m, e]` -> (the same shape, nothing to keep).

        A token sees the rows of `inputs.memory` that are of its example.
        """
        memory = inputs.memory
        # [b, m, e] -> [b, m, h, d], and [b, n, e] -> [b, n, h, d] twice.
        query = self.project("query", x)
        key, value = (self.project(name, memory.rows) for name in ("key", "value"))
        drop = self.dropout_rate > 0 and not self.deterministic
        heads = full.attend(
            query,
            key,
            value,
            example_ids=memory.example_ids,
            query_ids=inputs.example_ids,
            scale=self.scale,
            implementation=self.implementation,
            dropout_rate=self.dropout_rate,
            dropout_rng=self.make_rng("dropout") if drop else None,
            shards=sharding.ways("batch", "heads"),
        )
        # [b, m, h, d] -> [b, m, e]
        return self.joined(heads, x.shape[-1]), None
