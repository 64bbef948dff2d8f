"""Attention whose queries and keys are turned by their positions (Su et al. 2021)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.layers.patterns.full import Full
from etc_jax.layers.patterns.local import Local
from etc_jax.layers.self_attention import SequenceInputs


def turned(x: jax.Array, positions: jax.Array, base: float) -> jax.Array:
    """Pairs of features as points of a plane, turned by angles that positions give.

    Products of two such rows depend on the difference of their positions alone. Feature
    i goes with feature i + d / 2, as in transformers.

    Args:
      x: `[b, n, h, d]`; d is even.
      positions: int `[b or 1, n]`.
      base: wavelengths are up to 2 pi times that.

    Returns:
      `[b, n, h, d]` in the dtype of `x`; computed in float32 or wider.
    """
    half = x.shape[-1] // 2
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    rates = jnp.asarray(1.0 / base ** (np.arange(half) / half), dtype)
    # [b, n, 1] * [1, 1, half] -> [b, n, 1, half]
    angles = (positions[..., None].astype(dtype) * rates[None, None])[:, :, None]
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    first, second = jnp.split(x.astype(dtype), 2, axis=-1)
    pairs = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(pairs, axis=-1).astype(x.dtype)


class _Rotary:
    """What turned patterns share; `base` as of `turned`."""

    reads: ClassVar[frozenset[str]] = frozenset({"positions"})

    def placed(self, rows: tuple[jax.Array, ...], inputs: SequenceInputs):
        """See `Pattern.placed`: `[b, n, h, d]` of queries and keys, turned."""
        query, key, value = rows
        positions = inputs.positions
        if positions is None:
            # Only differences count, so packed examples need no counts of their own.
            positions = jnp.arange(query.shape[1])[None]
        query, key = (turned(x, positions, self.base) for x in (query, key))
        return query, key, value


@dataclasses.dataclass(frozen=True)
class RotaryFull(_Rotary, Full):
    """Tokens see each other."""

    base: float


@dataclasses.dataclass(frozen=True)
class RotaryLocal(_Rotary, Local):
    """A window."""

    base: float
