"""Initialisers, activations and the small modules that every block uses."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from etc_jax import sharding
from etc_jax.ops import chunked_loss

# Computed again in the backward pass: their intermediate values are as large as the
# widest activation of a layer and cheap to have back.
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": jax.checkpoint(lambda x: jax.nn.gelu(x, approximate=True)),
    "gelu_exact": jax.checkpoint(lambda x: jax.nn.gelu(x, approximate=False)),
    "relu": jax.nn.relu,
    "silu": jax.checkpoint(jax.nn.silu),
    "tanh": jnp.tanh,
    "linear": lambda x: x,
}


def truncated_normal(stddev: float) -> nn.initializers.Initializer:
    """Normal with `stddev`, cut at two standard deviations, as BERT initialises."""
    return nn.initializers.truncated_normal(stddev)


def as_rows(x: jax.Array, axes: int = 1) -> jax.Array:
    """`[..., e]` -> `[rows, e]`, the last `axes` taken as one.

    Matrix products and norms work on rows: with more dimensions, XLA on CPU transposes
    activations for the weight gradients and reduces five times slower. A sequence that
    is split over devices keeps its axis: batch and sequence, both split, have no common
    axis that devices could hold parts of.
    """
    lead, last = x.shape[:-axes], math.prod(x.shape[-axes:])
    if sharding.sequence_axis() is not None:
        return x.reshape(*lead, last)
    return x.reshape(-1, last)


def _for_rows(vector: jax.Array, rows: jax.Array) -> jax.Array:
    """A vector that goes with every one of `rows`."""
    return vector.reshape((1,) * (rows.ndim - 1) + (-1,))


class Dense(nn.Module):
    """A linear map of the last axes, computed as one matrix product.

    Attributes:
      features: shape of the result's last axes, such as (heads, head_dim).
      stddev: of the kernel's truncated normal.
      axes: how many last axes of the input are mapped.
      use_bias: whether something is added to the product.
      wide: the result stays in float32, as it was summed: logits over a vocabulary, of
        which several would be equal in bfloat16.
    """

    features: tuple[int, ...]
    stddev: float
    dtype: jnp.dtype
    axes: int = 1
    param_dtype: jnp.dtype = jnp.float32
    use_bias: bool = True
    wide: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        lead, inputs = x.shape[: -self.axes], x.shape[-self.axes :]
        kernel = self.param(
            "kernel",
            truncated_normal(self.stddev),
            (*inputs, *self.features),
            self.param_dtype,
        )
        matrix = kernel.reshape(math.prod(inputs), -1)
        rows = as_rows(x, self.axes).astype(self.dtype)
        if self.wide:
            y = chunked_loss.logits(rows, matrix)
        else:
            y = rows @ matrix.astype(self.dtype)
        if self.use_bias:
            bias = self.param(
                "bias", nn.initializers.zeros, self.features, self.param_dtype
            )
            y = y + _for_rows(bias, rows).astype(y.dtype)
        return y.reshape(*lead, *self.features)


@functools.partial(jax.checkpoint, static_argnums=(3, 4))
def _normalise(rows, scale, bias, epsilon: float, dtype):
    """Rows with mean 0 and variance 1, scaled and shifted: `[..., e]`."""
    y = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
    # Two passes: the one-pass variance loses digits where the mean is large.
    y = y - jnp.mean(y, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(y), axis=-1, keepdims=True)
    y = y * jax.lax.rsqrt(variance + epsilon)
    return (y * _for_rows(scale, y) + _for_rows(bias, y)).astype(dtype)


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
        rows = as_rows(x)
        y = _normalise(rows, scale, bias, self.epsilon, jnp.dtype(self.dtype))
        return y.reshape(x.shape)


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
        sizes = (self.stddev, self.dtype, 1, self.param_dtype)
        hidden = Dense((self.mlp_dim,), *sizes, name="wi")(as_rows(x))
        hidden = ACTIVATIONS[self.activation](hidden)
        return Dense((x.shape[-1],), *sizes, name="wo")(hidden).reshape(x.shape)
