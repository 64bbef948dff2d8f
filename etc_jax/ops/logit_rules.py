"""What may be written next: rules on the logits of tokens, given those before.

All of them are those of transformers, in its order: see `apply`.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Rules:
    """Which tokens are ruled out, or made less likely.

    Attributes:
      repetition_penalty: more than 1 makes tokens that are there already less likely
        (Keskar et al. 2019, section 4.1); logits above 0 are divided by it, others
        multiplied.
      no_repeat_ngram: no sequence of so many tokens is written twice (Paulus et al.
        2018, section 2.5); 0: any may be.
      min_tokens: to be written before `eos_id`.
      eos_id: token that ends a text; None: none does.
      forced_bos_id: first token after the one that the decoder begins with; None: any.
      forced_eos_id: last token, where the length is reached; None: any.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    min_tokens: int = 0
    eos_id: int | None = None
    forced_bos_id: int | None = None
    forced_eos_id: int | None = None


def apply(
    logits: Array, rules: Rules, tokens: Array, count: Array, start: int, last: int
) -> Array:
    """Logits after all rules.

    Args:
      logits: float `[r, vocabulary]`, or their log softmax.
      rules: that hold.
      tokens: int `[r, length]`, of which the first `count` are written.
      count: int scalar.
      start: tokens that were given, not written: the prompt of the decoder.
      last: place of the last token that there is room for.

    Returns:
      float `[r, vocabulary]`, -inf for what is ruled out.
    """
    # Place of each token, [length], below `count` where it is written.
    written = jnp.arange(tokens.shape[1]) < count
    if rules.repetition_penalty != 1:
        logits = _penalized(logits, rules.repetition_penalty, tokens, written)
    if rules.no_repeat_ngram:
        banned = _completes(tokens, count, rules.no_repeat_ngram, logits.shape[1])
        logits = jnp.where(banned, -jnp.inf, logits)
    token = jnp.arange(logits.shape[1])[None]
    if rules.min_tokens and rules.eos_id is not None:
        short = count - start < rules.min_tokens
        logits = jnp.where(short & (token == rules.eos_id), -jnp.inf, logits)
    for forced, place in ((rules.forced_bos_id, 1), (rules.forced_eos_id, last)):
        if forced is not None:
            only = jnp.where(token == forced, 0.0, -jnp.inf).astype(logits.dtype)
            logits = jnp.where(count == place, only, logits)
    return logits


def _penalized(logits: Array, penalty: float, tokens: Array, written: Array) -> Array:
    there = _marked(tokens, written[None], logits.shape[1])
    less = jnp.where(logits < 0, logits * penalty, logits / penalty)
    return jnp.where(there, less, logits)


def _marked(tokens: Array, which: Array, size: int) -> Array:
    """bool `[r, size]`: the ids that stand where `which` is true."""
    row = jnp.arange(tokens.shape[0])[:, None]
    none = jnp.zeros((tokens.shape[0], size), bool)
    # Each id of [r, n] is one of `size`.
    return none.at[row, tokens].max(jnp.broadcast_to(which, tokens.shape))


def _completes(tokens: Array, count: Array, n: int, size: int) -> Array:
    """bool `[r, size]`: the ids that would end an n-gram that is there already."""
    length = tokens.shape[1]
    starts = length - n + 1
    if starts < 1:
        return jnp.zeros((tokens.shape[0], size), bool)
    # An n-gram at each place, whose end is written: [1, starts].
    same = (jnp.arange(starts) + n <= count)[None]
    for i in range(n - 1):
        # The i-th of the last n - 1 tokens, [r, 1]; before them `same` is all false.
        newest = jnp.take(tokens, jnp.maximum(count - n + 1 + i, 0), axis=1)[:, None]
        same = same & (tokens[:, i : i + starts] == newest)
    return _marked(tokens[:, n - 1 :], same, size)
