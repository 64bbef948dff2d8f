"""One vector for a text from the hidden states of its tokens."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.loading.text_encoder import Batch, TextEncoder

_SMALLEST_NORM = 1e-12


def check(pooling: str, encoder: TextEncoder) -> None:
    """Refuses a pooling that the model does not have.

    Raises:
      ValueError: naming those that it has.
    """
    if pooling not in encoder.poolings:
        raise ValueError(
            f"pooling is {pooling!r}, which a {type(encoder.config).__name__} does not "
            f"have; expected {' or '.join(encoder.poolings)}"
        )


def pooled(encoder: TextEncoder, output: Any, batch: Batch, pooling: str) -> jax.Array:
    """float32 vectors of texts.

    Args:
      encoder: of the model.
      output: of its `apply`.
      batch: that it is of.
      pooling: "mean" of all tokens, special ones too; "cls", the first token;
        "global", the mean of the global tokens.

    Returns:
      `[b, e]`; zeros where there is no token.
    """
    of = encoder.global_tokens if pooling == "global" else encoder.tokens
    states, real = of(output, batch)
    states = states.astype(jnp.float32)
    if pooling == "cls":
        return states[:, 0]
    # What padding holds does not count, whatever it is.
    total = jnp.where(real[..., None], states, 0).sum(axis=1)
    return total / jnp.maximum(real.sum(axis=1, keepdims=True), 1)


@functools.partial(jax.jit, static_argnames=("encoder", "pooling", "normalize"))
def vectors(
    encoder: TextEncoder, params: Any, batch: Batch, pooling: str, normalize: bool
) -> jax.Array:
    """float32 `[b, e]` of a batch; of length 1 with `normalize`."""
    pool = pooled(encoder, encoder.apply(params, batch), batch, pooling)
    return normalized(pool) if normalize else pool


def normalized(vectors: jax.Array) -> jax.Array:
    """Vectors `[b, e]` of length 1; of zeros zeros, with gradients that are finite."""
    squares = jnp.sum(vectors**2, axis=1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squares, _SMALLEST_NORM**2))


@functools.partial(jax.jit, static_argnames="encoder")
def states(encoder: TextEncoder, params: Any, batch: Batch) -> jax.Array:
    """float32 `[b, n, e]` of a batch, 0 in padding."""
    hidden, real = encoder.tokens(encoder.apply(params, batch), batch)
    return jnp.where(real[..., None], hidden.astype(jnp.float32), 0)
