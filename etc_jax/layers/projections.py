"""Maps from a width to heads and back, which the attention of one sequence has."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.common import Dense


class HeadProjections(nn.Module):
    """Queries, keys, values, output and options of multi-head attention.

    Attributes:
      num_heads, head_dim: of every projection.
      stddev: of the kernels' truncated normal.
      query_stddev: of the kernels of queries; None: as the others.
      out_stddev: of the kernel of the output; None: as the others.
      projection_bias: queries, keys and values have one.
      out_bias: the output has one.
      scale: of the products; None: 1 / sqrt(head_dim).
      dropout_rate: of attention probabilities.
      implementation: a name of `ops.attention.parts.checks.IMPLEMENTATIONS`.
      deterministic: no dropout.
    """

    num_heads: int
    head_dim: int
    _: dataclasses.KW_ONLY
    stddev: float = 0.02
    query_stddev: float | None = None
    out_stddev: float | None = None
    projection_bias: bool = True
    out_bias: bool = True
    scale: float | None = None
    dropout_rate: float = 0.0
    implementation: str = "auto"
    deterministic: bool = True
    dtype: jnp.dtype = jnp.float32
    param_dtype: jnp.dtype = jnp.float32

    def to_heads(self, name: str) -> Dense:
        """The map `[b, n, e]` -> `[b, n, h, d]` of one name."""
        stddev = self.stddev
        if name.startswith("query") and self.query_stddev is not None:
            stddev = self.query_stddev
        return Dense(
            (self.num_heads, self.head_dim),
            stddev,
            self.dtype,
            param_dtype=self.param_dtype,
            use_bias=self.projection_bias,
            name=name,
        )

    def project(self, name: str, x: jax.Array) -> jax.Array:
        """`[b, n, e]` -> `[b, n, h, d]`."""
        return self.to_heads(name)(x)

    def options(self) -> dict[str, Any]:
        """What every attention of `ops.attention` takes; draws a key of dropout."""
        drop = self.dropout_rate > 0 and not self.deterministic
        return {
            "scale": self.scale,
            "implementation": self.implementation,
            "dropout_rate": self.dropout_rate,
            "dropout_rng": self.make_rng("dropout") if drop else None,
            "shards": sharding.ways("batch", "heads"),
        }

    def output(self, width: int, name: str = "out") -> Dense:
        """The map `[b, n, h, d]` -> `[b, n, width]`."""
        return Dense(
            (width,),
            self.stddev if self.out_stddev is None else self.out_stddev,
            self.dtype,
            axes=2,
            param_dtype=self.param_dtype,
            use_bias=self.out_bias,
            name=name,
        )

    def joined(self, heads: jax.Array, width: int) -> jax.Array:
        """`[b, n, h, d]` -> `[b, n, width]`."""
        return self.output(width)(heads)
