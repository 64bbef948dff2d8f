"""What relative positions add to the logits of all layers of a stack."""

import jax.numpy as jnp
from flax import linen as nn

from etc_jax.layers.common import truncated_normal
from etc_jax.ops.attention.bias import BucketBias


class RelativeBias(nn.Module):
    """One number for each bucket of offsets and head (Raffel et al. 2020, section 2.1).

    Attributes:
      num_buckets, max_distance, causal: see `ops.attention.bias.bucket`.
      num_heads: of every layer.
      stddev: of the table's truncated normal.
    """

    num_buckets: int
    max_distance: int
    num_heads: int
    causal: bool
    stddev: float

    @nn.compact
    def __call__(self) -> BucketBias:
        """The function of offsets; its table is the parameter."""
        shape = self.num_buckets, self.num_heads
        init = truncated_normal(self.stddev)
        table = self.param("rel_embedding", init, shape, jnp.float32)
        return BucketBias(table, self.max_distance, causal=self.causal)
