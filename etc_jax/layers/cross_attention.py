"""Attention of a decoder to the rows of an encoder (Vaswani et al. 2017)."""

import dataclasses

import jax
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.projections import HeadProjections
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.ops.attention import full, memory_rows
from etc_jax.ops.attention.memory_rows import MemoryRows


class CrossAttention(HeadProjections):
    """Multi-head attention to another sequence, without a bias of positions."""

    @nn.compact
    def __call__(self, x: jax.Array, inputs: SequenceInputs) -> tuple[jax.Array, None]:
        """`[b, m, e]` -> (the same shape, None).

        A token sees the rows of `inputs.memory` that are of its example.
        """
        memory = inputs.memory
        # [b, m, e] -> [b, m, h, d]
        query = self.project("query", x)
        if isinstance(memory, MemoryRows):
            heads = memory_rows.attend(query, memory, scale=self.scale)
            return self.joined(heads, x.shape[-1]), None
        # [b, n, e] -> [b, n, h, d], twice.
        key, value = (self.project(name, memory.rows) for name in ("key", "value"))
        heads = full.attend(
            query,
            key,
            value,
            example_ids=memory.example_ids,
            query_ids=inputs.example_ids,
            mesh_axes=sharding.mesh_axes(),
            **self.options(),
        )
        # [b, m, h, d] -> [b, m, e]
        return self.joined(heads, x.shape[-1]), None


class MemoryProjections(CrossAttention):
    """The keys and values of a `CrossAttention`, for tokens that come one by one."""

    @nn.compact
    def __call__(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """`[b, n, e]` of an encoder -> two of `[b, h, n, d]`, see `MemoryRows`."""
        key, value = (self.project(name, rows) for name in ("key", "value"))
        return memory_rows.by_heads(key), memory_rows.by_heads(value)


def memory_projections(cross: CrossAttention) -> MemoryProjections:
    """Those of an attention."""
    # Linen's own two fields belong to the module, not to its copy.
    fields = {field.name for field in dataclasses.fields(cross)} - {"parent", "name"}
    return MemoryProjections(**{x: getattr(cross, x) for x in fields}, parent=None)
