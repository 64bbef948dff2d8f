"""The choice of a token by its logits."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp

from etc_jax.base.rules import at_least, number, whole
from etc_jax.ops.logit_rules import LARGEST, SMALLEST

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
      rng: key of the draws, or keys `[b]`, one for each row.
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
    draw = jax.vmap(jax.random.categorical) if rng.ndim else jax.random.categorical
    return draw(rng, logits).astype(jnp.int32)


def filtered(
    logits: Array,
    temperature: Array | float,
    *,
    top_k: int = 0,
    top_p: Array | float | None = None,
) -> Array:
    """Logits `[b, vocabulary]` of what is drawn from, -inf for what is left out.

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


def problems(temperature: float, top_k: int, top_p: float) -> Iterator[tuple[str, str]]:
    """(option, message) for everything that nothing can be drawn with.

    Args:
      temperature: see `choose`; 0: the likeliest token is taken.
      top_k: see `choose`.
      top_p: see `choose`; 1: nothing is left out.
    """
    if temperature and not SMALLEST <= temperature <= LARGEST:
        yield (
            "temperature",
            f"is {temperature}; expected 0 (the likeliest token), or {SMALLEST:g} to "
            f"{LARGEST:g}",
        )
    if problem := at_least(0, "all").problem(top_k):
        yield "top_k", problem
    if problem := number(0, 1, "(]").problem(top_p):
        yield "top_p", problem


def key(seed: int) -> Array:
    """The key of a seed.

    Raises:
      ValueError: if another seed would give the same one: `jax.random.key` keeps 32
        bits.
    """
    whole(0, 2**32 - 1).check(seed=seed)
    return jax.random.key(seed)


def key_of_draws(rng: Array | None, temperature: float) -> Array:
    """The scalar key to draw with; where nothing is drawn, it need not be given.

    Raises:
      ValueError: if it is missing.
    """
    if rng is None and temperature:
        raise ValueError("rng is None; give a key to draw with, or temperature=0")
    return jax.random.key(0) if rng is None else rng


def _nucleus(logits: Array, top_p: Array | float) -> Array:
    ordered = jnp.sort(logits, axis=-1, descending=True)
    odds = jax.nn.softmax(ordered, axis=-1)
    # What the likelier tokens have together, [b, vocabulary], in sorted order.
    before = jnp.cumsum(odds, axis=-1) - odds
    # The first one stays in, whatever is lost in rounding.
    in_nucleus = (before < top_p).at[:, 0].set(True)
    # A threshold, [b, 1], as `in_nucleus` does not say where in the row a token stands.
    least = jnp.where(in_nucleus, ordered, jnp.inf).min(axis=-1, keepdims=True)
    return jnp.where(logits < least, -jnp.inf, logits)
