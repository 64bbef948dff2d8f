"""The choice of a token by its logits."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

Array = jax.Array


def choose(
    logits: Array,
    rng: Array,
    temperature: Array | float | None = 1.0,
    *,
    top_k: int = 0,
    top_p: Array | float | None = None,
) -> Array:
    """Draws a token of each row from the softmax, or from the likeliest part of it.

    Args:
      logits: float `[b, vocabulary]`.
      rng: key of the draw.
      temperature: what logits are divided by first, more than 0; None: the likeliest
        token is taken, and nothing drawn.
      top_k: leave out what is less likely than so many others; 0: nothing. Those that
        are as likely as the last one of these stay in.
      top_p: of the rest, leave out what is less likely than the likeliest tokens whose
        probabilities reach this together (Holtzman et al. 2020, section 3.1); None:
        nothing.

    Returns:
      int32 `[b]`.
    """
    if temperature is None:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    logits = filtered(logits, temperature, top_k=top_k, top_p=top_p)
    return jax.random.categorical(rng, logits).astype(jnp.int32)


def filtered(
    logits: Array,
    temperature: Array | float,
    *,
    top_k: int = 0,
    top_p: Array | float | None = None,
) -> Array:
    """Logits of the softmax that is drawn from, -inf for what is left out.

    Args:
      logits: see `choose`.
      temperature: see `choose`.
      top_k: see `choose`.
      top_p: see `choose`.
    """
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        # [b, 1]: the top_k-th logit of each row.
        least = jax.lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    return logits if top_p is None else _nucleus(logits, top_p)


def check(temperature: float, top_k: int, top_p: float) -> None:
    """Refuses what nothing can be drawn with.

    Args:
      temperature: see `choose`; 0: the likeliest token is taken.
      top_k: see `choose`.
      top_p: see `choose`; 1: nothing is left out.

    Raises:
      ValueError: naming the option, what it is and what was expected.
    """
    for name, x, fits, expected in (
        ("temperature", temperature, 0 <= temperature < math.inf, "0 or more"),
        ("top_k", top_k, top_k >= 0, "0 (all) or more"),
        ("top_p", top_p, 0 < top_p <= 1, "more than 0, at most 1"),
    ):
        if not fits:
            raise ValueError(f"{name} is {x}; expected {expected}")


def _nucleus(logits: Array, top_p: Array | float) -> Array:
    ordered = jnp.sort(logits, axis=-1, descending=True)
    odds = jax.nn.softmax(ordered, axis=-1)
    # What the likelier tokens have together, [b, vocabulary], in sorted order.
    before = jnp.cumsum(odds, axis=-1) - odds
    # The first one stays in, whatever is lost in rounding.
    kept = (before < top_p).at[:, 0].set(True)
    # A threshold, [b, 1], as `kept` does not say where in the row a token stands.
    least = jnp.where(kept, ordered, jnp.inf).min(axis=-1, keepdims=True)
    return jnp.where(logits < least, -jnp.inf, logits)
