"""One vector for a text from the hidden states of its tokens."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.formats.sequence import EXAMPLE_IDS, GLOBAL_INDEX
from etc_jax.loading.text_encoders import Batch, TextEncoder

POOLINGS = ("mean", "cls", "global")
_SMALLEST_NORM = 1e-12


def check(pooling: str, encoder: TextEncoder) -> None:
    """Refuses a pooling that there is not, or that the model has no tokens for.

    Raises:
      ValueError: naming the poolings.
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling is {pooling!r}; expected {' or '.join(POOLINGS)}")
    if pooling == "global" and not encoder.num_globals:
        raise ValueError(
            f"pooling is 'global', but a {type(encoder.config).__name__} reads no "
            "global tokens; expected mean or cls"
        )


def pooled(states: jax.Array, batch: Batch, pooling: str) -> jax.Array:
    """float32 vectors of texts.

    Args:
      states: `[b, n, e]`.
      batch: that they are of, see `text_encoders.batch_of`.
      pooling: "mean" of all tokens, special ones too; "cls", the first token;
        "global", the mean of the global tokens.

    Returns:
      `[b, e]`.
    """
    states = states.astype(jnp.float32)
    if pooling == "cls":
        return states[:, 0]
    if pooling == "mean":
        real = batch[EXAMPLE_IDS] > 0
    else:
        index = batch[GLOBAL_INDEX]
        real = index >= 0
        # [b, n, e] -> [b, g, e]
        states = jnp.take_along_axis(states, jnp.maximum(index, 0)[..., None], axis=1)
    # A sum of zeros and products, so that what padding holds does not count.
    total = jnp.where(real[..., None], states, 0).sum(axis=1)
    return total / jnp.maximum(real.sum(axis=1, keepdims=True), 1)


@functools.partial(jax.jit, static_argnames=("encoder", "pooling", "normalize"))
def vectors(
    encoder: TextEncoder, params: Any, batch: Batch, pooling: str, normalize: bool
) -> jax.Array:
    """float32 `[b, e]` of a batch; of length 1 with `normalize`."""
    found = pooled(encoder.apply(params, batch), batch, pooling)
    if not normalize:
        return found
    norm = jnp.linalg.norm(found, axis=1, keepdims=True)
    return found / jnp.maximum(norm, _SMALLEST_NORM)


@functools.partial(jax.jit, static_argnames="encoder")
def states(encoder: TextEncoder, params: Any, batch: Batch) -> jax.Array:
    """float32 `[b, n, e]` of a batch, 0 in padding."""
    found = encoder.apply(params, batch).astype(jnp.float32)
    return jnp.where(batch[EXAMPLE_IDS][..., None] > 0, found, 0)
