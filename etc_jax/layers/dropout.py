"""Dropout of rows (Srivastava et al. 2014)."""

from __future__ import annotations

import jax
from flax import linen as nn

from etc_jax.ops.dropout import dropped


class Dropout(nn.Module):
    """As `flax.linen.Dropout`, drawn by a hash: see `ops.dropout`.

    Attributes:
      rate: share of the elements that become 0.
      deterministic: without dropout; None: the call says.
    """

    rate: float
    deterministic: bool | None = None

    @nn.compact
    def __call__(self, x: jax.Array, deterministic: bool | None = None) -> jax.Array:
        """`[..., n, e]` -> the same shape; draws from the stream "dropout"."""
        off = nn.merge_param("deterministic", self.deterministic, deterministic)
        if off or not self.rate:
            return x
        return dropped(x, self.make_rng("dropout"), self.rate)
