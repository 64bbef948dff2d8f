"""Initialisers, activations and the small modules that every block uses."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_exact": lambda x: jax.nn.gelu(x, approximate=False),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "linear": lambda x: x,
}


def truncated_normal(stddev: float) -> nn.initializers.Initializer:
    """Normal with `stddev`, cut at two standard deviations, as BERT initialises."""
    return nn.initializers.truncated_normal(stddev)


class LayerNorm(nn.Module):
    """Layer normalisation over the last axis with float32 statistics.

    Attributes:
      epsilon: added to the variance.
      dtype: of the result.
    """

    epsilon: float
    dtype: jnp.dtype
    param_dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (width,), self.param_dtype)
        bias = self.param("bias", nn.initializers.zeros, (width,), self.param_dtype)
        wide = jnp.promote_types(x.dtype, jnp.float32)
        y = x.astype(wide)
        # Two passes: the one-pass variance loses digits where the mean is large.
        y = y - jnp.mean(y, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(y), axis=-1, keepdims=True)
        y = y * jax.lax.rsqrt(variance + self.epsilon)
        lead = (1,) * (x.ndim - 1)
        y = y * scale.reshape(*lead, width) + bias.reshape(*lead, width)
        return y.astype(self.dtype)


class Mlp(nn.Module):
    """Feed-forward block: Dense, activation, Dense.

    Attributes:
      mlp_dim: hidden width.
      activation: a name of `ACTIVATIONS`.
      stddev: of the kernels' truncated normal.
    """

    mlp_dim: int
    activation: str
    stddev: float
    dtype: jnp.dtype
    param_dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def dense(features, name):
            return nn.Dense(
                features,
                kernel_init=truncated_normal(self.stddev),
                dtype=self.dtype,
                param_dtype=self.param_dtype,
                name=name,
            )

        hidden = ACTIVATIONS[self.activation](dense(self.mlp_dim, "wi")(x))
        return dense(x.shape[-1], "wo")(hidden)
