"""Initialisers, activations and the small modules that every block uses."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax import sharding
from etc_jax.layers.dropout import Dropout
from etc_jax.ops import blocking, chunked_loss

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


def sinusoids(positions: jax.Array, width: int) -> jax.Array:
    """Positions as sines and cosines of growing wavelengths.

    Vaswani et al. 2017, section 3.5, but all sines before all cosines: only the order
    of the features differs.

    Args:
      positions: int `[b, n]`.
      width: features, an even number.

    Returns:
      float32 `[b, n, width]`.
    """
    half = width // 2
    # [half]
    rates = np.float32(10_000.0 ** (-np.arange(half) / half))
    # [b, n, 1] * [1, 1, half] -> [b, n, half]
    angles = positions[..., None].astype(jnp.float32) * rates[None, None]
    # [b, n, 2 * half]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def as_rows(x: jax.Array, axes: int = 1) -> jax.Array:
    """`[..., e]` -> `[rows, e]`, the last `axes` taken as one.

    Matrix products and norms work on rows: with more dimensions, XLA on CPU transposes
    activations for the weight gradients and reduces five times slower. A sequence that
    is split over devices keeps its axis: batch and sequence, both split, have no common
    axis that devices could hold parts of.
    """
    lead, last = x.shape[:-axes], math.prod(x.shape[-axes:])
    if sharding.sequence_axis() is not None:
        # [b, n, e]
        return x.reshape(*lead, last)
    # [b * n, e]
    return x.reshape(-1, last)


def _for_rows(vector: jax.Array, rows: jax.Array) -> jax.Array:
    """A vector that goes with every one of `rows`."""
    return vector.reshape((1,) * (rows.ndim - 1) + (-1,))


@jax.custom_vjp
def _shifted(rows: jax.Array, bias: jax.Array) -> jax.Array:
    """Rows and a vector: its gradient is summed over the rows in float32.

    Without this it would be in the dtype of the rows: in bfloat16 less exact, and on
    TPUs another pass through memory.
    """
    # [..., features] + [1, features]
    return rows + _for_rows(bias, rows).astype(rows.dtype)


def _shifted_forward(rows, bias):
    return _shifted(rows, bias), bias


def _shifted_backward(bias, d_rows):
    wide = d_rows.astype(jnp.promote_types(d_rows.dtype, jnp.float32))
    total = jnp.sum(wide, axis=tuple(range(d_rows.ndim - 1)))
    return d_rows, total.reshape(bias.shape).astype(bias.dtype)


_shifted.defvjp(_shifted_forward, _shifted_backward)


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
        """`[..., *inputs]` -> `[..., *features]` in `dtype`, or float32 if `wide`."""
        lead, inputs = x.shape[: -self.axes], x.shape[-self.axes :]
        # [*inputs, *features], such as [e, h, d]: heads are an axis of their own, which
        # a mesh can split.
        kernel = self.param(
            "kernel",
            truncated_normal(self.stddev),
            (*inputs, *self.features),
            self.param_dtype,
        )
        # Both groups of axes as one each: [inputs, features].
        matrix = kernel.reshape(math.prod(inputs), -1)
        rows = as_rows(x, self.axes).astype(self.dtype)
        if self.wide:
            # Multiplied in `dtype`, summed and kept in float32.
            y = chunked_loss.logits(rows, matrix)
        else:
            y = rows @ matrix.astype(self.dtype)
        if self.use_bias:
            bias = self.param(
                "bias", nn.initializers.zeros, self.features, self.param_dtype
            )
            y = _shifted(y, bias)
        # [rows, features] -> [..., *features]
        return y.reshape(*lead, *self.features)


# Computed again in the backward pass: faster than writing and reading what it would
# keep.
@functools.partial(jax.checkpoint, static_argnums=(3, 4))
def _normalise(rows, scale, bias, epsilon: float, dtype):
    """Rows with mean 0 and variance 1, scaled and shifted: `[..., e]`.

    Without a bias the mean stays: rows of mean square 1, scaled.
    """
    y = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
    if bias is not None:
        # Two passes: the one-pass variance loses digits where the mean is large.
        y = y - jnp.mean(y, axis=-1, keepdims=True)
    # [..., e] -> [..., 1]
    variance = jnp.mean(jnp.square(y), axis=-1, keepdims=True)
    y = y * jax.lax.rsqrt(variance + epsilon) * _for_rows(scale, y)
    # Rounded to the compute dtype once, at the end.
    return (y if bias is None else y + _for_rows(bias, y)).astype(dtype)


class Embed(nn.Embed):
    """A table of rows, whose gradients are summed in the table's own dtype.

    flax rounds the table to `dtype` first, and so its gradients are added up in that.
    In bfloat16 a sum of ones ends at 256, and one row may be read by every token of a
    batch (a type, a mask token).
    """

    def __call__(self, inputs: jax.Array) -> jax.Array:
        """int `[...]` -> `[..., features]` in `dtype`."""
        if self.num_embeddings == 1:
            return super().__call__(inputs)  # no rows to choose from
        dtype = jnp.dtype(self.dtype or self.embedding.dtype)
        return _rows_of(dtype, self.embedding, inputs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rows_of(dtype, table: jax.Array, ids: jax.Array) -> jax.Array:
    return jnp.take(table.astype(dtype), ids, axis=0)


def _rows_of_forward(dtype, table, ids):
    return _rows_of(dtype, table, ids), (table, ids)


def _rows_of_backward(dtype, saved, d_rows):
    del dtype
    table, ids = saved
    total = jnp.zeros_like(table).at[ids].add(d_rows.astype(table.dtype), mode="drop")
    return total, None


_rows_of.defvjp(_rows_of_forward, _rows_of_backward)


class _Norm(nn.Module):
    """A norm over the last axis with float32 statistics.

    Attributes:
      epsilon: added to the variance.
      dtype: of the result.
    """

    epsilon: float
    dtype: jnp.dtype
    param_dtype: jnp.dtype = jnp.float32

    def _normed(self, x: jax.Array, bias: jax.Array | None) -> jax.Array:
        ones = nn.initializers.ones
        scale = self.param("scale", ones, (x.shape[-1],), self.param_dtype)
        # [b, n, e] -> [b * n, e]
        rows = as_rows(x)
        y = _normalise(rows, scale, bias, self.epsilon, jnp.dtype(self.dtype))
        return y.reshape(x.shape)


class LayerNorm(_Norm):
    """Layer normalisation (Ba et al. 2016); other attributes as of every norm here.

    Attributes:
      use_bias: whether something is added to what was scaled.
    """

    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """`[..., e]` -> the same shape."""
        shape, zeros = (x.shape[-1],), nn.initializers.zeros
        if self.use_bias:
            return self._normed(x, self.param("bias", zeros, shape, self.param_dtype))
        return self._normed(x, jnp.zeros(shape, self.param_dtype))


class RmsNorm(_Norm):
    """Root mean square normalisation (Zhang and Sennrich 2019), as in T5."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """`[..., e]` -> the same shape."""
        return self._normed(x, None)


class Mlp(nn.Module):
    """Feed-forward block: Dense, activation, Dense, or a gated one (Shazeer 2020).

    Attributes:
      mlp_dim: hidden width.
      activation: a name of `ACTIVATIONS`.
      stddev: of the kernels' truncated normal.
      gated: what the activation makes of one map is multiplied with another map.
      use_bias: of all maps.
      hidden_dropout_rate: before the activation (trax).
      wide_dropout_rate: of the hidden layer, after the activation (T5, BART).
      out_stddev: of the last kernel; None: as the others.
    """

    mlp_dim: int
    activation: str
    stddev: float
    dtype: jnp.dtype
    param_dtype: jnp.dtype = jnp.float32
    gated: bool = False
    use_bias: bool = True
    hidden_dropout_rate: float = 0.0
    wide_dropout_rate: float = 0.0
    out_stddev: float | None = None
    deterministic: bool = True

    def _dense(self, features: int, name: str, stddev: float) -> Dense:
        return Dense(
            (features,),
            stddev,
            self.dtype,
            param_dtype=self.param_dtype,
            use_bias=self.use_bias,
            name=name,
        )

    def _map(self, x: jax.Array) -> jax.Array:
        rows = as_rows(x)
        # [b * n, e] -> [b * n, mlp_dim]
        hidden = self._dense(self.mlp_dim, "wi", self.stddev)(rows)
        drop = Dropout(self.hidden_dropout_rate, name="hidden_dropout")
        # The activation is of wi_gate's map where there is one, else of wi's.
        gate = hidden
        if self.gated:
            gate = self._dense(self.mlp_dim, "wi_gate", self.stddev)(rows)
        gate = drop(gate, deterministic=self.deterministic)
        gate = ACTIVATIONS[self.activation](gate)
        hidden = gate * hidden if self.gated else gate
        drop = Dropout(self.wide_dropout_rate, name="wide_dropout")
        hidden = drop(hidden, deterministic=self.deterministic)
        stddev = self.stddev if self.out_stddev is None else self.out_stddev
        # [b * n, mlp_dim] -> [b * n, e] -> [b, n, e]
        return self._dense(x.shape[-1], "wo", stddev)(hidden).reshape(x.shape)

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """`[..., e]` -> the same shape."""
        return self._map(x)


class _MlpStep(Mlp):
    """The body of a scan over chunks."""

    @nn.compact
    def __call__(self, carry, x):
        return carry, self._map(x)


def chunked_mlp(size: int, **options) -> Callable[[jax.Array], jax.Array]:
    """`Mlp` of some tokens at a time, whose hidden layer is computed again.

    Args:
      size: tokens whose hidden layer exists at once; 0: all. Dropout draws otherwise
        with another one.
      **options: of `Mlp`.

    Returns:
      A function of `[b, n, e]`, to be called in a compact method.
    """

    def apply(x: jax.Array) -> jax.Array:
        n = x.shape[1]
        if not size or n <= size:
            return Mlp(**options)(x)
        # Of [b, chunks, size, mlp_dim] one chunk exists at a time. All read the
        # parameters of one Mlp; each draws its own dropout.
        step = nn.scan(
            nn.remat(_MlpStep, prevent_cse=False),
            variable_broadcast="params",
            split_rngs={"params": False, "dropout": True},
            in_axes=1,
            out_axes=1,
        )
        # [b, n, e] -> [b, chunks * size, e] -> [b, chunks, size, e]
        chunks = blocking.pad_axis(x, 1, 0, -n % size)
        chunks = blocking.blocks(chunks, chunks.shape[1] // size, 1)
        # [b, chunks, size, e] -> [b, n, e]
        return blocking.unblock(step(**options)(None, chunks)[1], 1)[:, :n]

    return apply
