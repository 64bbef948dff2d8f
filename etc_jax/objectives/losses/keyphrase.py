"""Keyphrases among all runs of words: OpenKP.

One softmax goes over all runs. The target is divided equally between the keyphrases
(ETC paper, appendix C), and a little of it is spread over all runs, as in the official
code.
"""

import jax
import jax.numpy as jnp

from etc_jax.ops.ngrams import NO_NGRAM

# Mass that is added to the target, which is scaled to 1 again.
SMOOTHING = 1e-4


def runs_at(starts: jax.Array, lengths: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """Where the runs of some first words and lengths are.

    Args:
      starts: int `[b, p]`, first words; -1 for none.
      lengths: int `[b, p]`, numbers of words; -1 for none. One above the longest run
        counts as none.
      shape: (longest run, places for words).

    Returns:
      bool `[b, p, longest, n]`, with one True for each run.
    """
    longest, n = shape
    of_length = lengths[..., None] == jnp.arange(1, longest + 1)[None, None]
    of_start = starts[..., None] == jnp.arange(n)[None, None]
    return of_length[..., None] & of_start[:, :, None]


def first_occurrence(
    logits: jax.Array,
    starts: jax.Array,
    lengths: jax.Array,
    weights: jax.Array,
    *,
    allowed: jax.Array | None = None,
    smoothing: float = SMOOTHING,
):
    """Cross-entropy of the first occurrence of each keyphrase (the paper's default).

    Args:
      logits: `[b, longest, n]`, of all runs of words; see
        `models.ngram_head.NgramHead`.
      starts: int `[b, p]`, first words of keyphrases; -1 for none.
      lengths: int `[b, p]`, their numbers of words; -1 for none.
      weights: `[b]`, 0 for padding examples, which may have no keyphrase.
      allowed: bool `[b, longest, n]`, the runs that smoothing is spread over
        (`ops.ngrams.ngram_mask`); None: all, with those beyond the text, as in the
        official code, where the loss depends on the padding.
      smoothing: mass that is added to the target of 1.

    Returns:
      (sum of losses, sum of best guesses that are right, sum of weights), float32
      scalars.
    """
    right = jnp.any(runs_at(starts, lengths, logits.shape[1:]), axis=1)
    losses = _losses(logits, right, allowed, smoothing)
    return _sums(losses, logits, right, weights)


def occurrence_runs(
    occurrences: jax.Array, lengths: jax.Array, longest: int
) -> jax.Array:
    """Where all occurrences of each keyphrase are.

    Args:
      occurrences: uint8 `[b, n]`: bit p is set where keyphrase p begins.
      lengths: int `[b, p]`, numbers of words; -1 for none.
      longest: words of the longest run.

    Returns:
      bool `[b, p, longest, n]`.
    """
    bits = jnp.arange(lengths.shape[1])[None, :, None]
    begins = (occurrences.astype(jnp.int32)[:, None] >> bits) & 1
    of_length = lengths[..., None] == jnp.arange(1, longest + 1)[None, None]
    return of_length[..., None] & (begins[:, :, None] == 1)


def best_occurrence(
    logits: jax.Array,
    occurrences: jax.Array,
    lengths: jax.Array,
    weights: jax.Array,
    *,
    allowed: jax.Array | None = None,
    smoothing: float = SMOOTHING,
):
    """Cross-entropy of the best-rated occurrence of each keyphrase ("max loss").

    The logit of a keyphrase is the largest of its occurrences (paper, appendix C). The
    paper does not say what becomes of the others. Here they leave the softmax: they
    are the same phrase, so neither a target nor a rival.

    Args:
      logits: `[b, longest, n]`; see `first_occurrence`.
      occurrences: uint8 `[b, n]`; see `occurrence_runs`.
      lengths: int `[b, p]`; see `occurrence_runs`.
      weights: `[b]`; see `first_occurrence`.
      allowed: bool `[b, longest, n]`; see `first_occurrence`.
      smoothing: see `first_occurrence`.

    Returns:
      As `first_occurrence`. A best guess is right at any occurrence.
    """
    runs = occurrence_runs(occurrences, lengths, logits.shape[1])
    right = jnp.any(runs, axis=1)
    best = _best_runs(logits, runs)
    others = right & ~best
    remaining = ~others if allowed is None else allowed & ~others
    losses = _losses(jnp.where(others, NO_NGRAM, logits), best, remaining, smoothing)
    return _sums(losses, logits, right, weights)


def _best_runs(logits: jax.Array, runs: jax.Array) -> jax.Array:
    """bool `[b, longest, n]`: the run with the largest logit of each keyphrase."""
    b, p, longest, n = runs.shape
    flat = jnp.where(runs, logits[:, None], -jnp.inf).reshape(b, p, longest * n)
    best = jax.nn.one_hot(jnp.argmax(flat, axis=-1), longest * n, dtype=bool)
    return jnp.any(best.reshape(runs.shape) & runs, axis=1)


def _losses(logits, right, allowed, smoothing: float) -> jax.Array:
    """float32 `[b]`; see `first_occurrence`."""
    b = len(logits)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32).reshape(b, -1), axis=-1)
    share = _spread(right.reshape(b, -1))
    rest = jnp.ones_like(right) if allowed is None else allowed
    target = (share + smoothing * _spread(rest.reshape(b, -1))) / (1.0 + smoothing)
    return -jnp.sum(target * log_p, axis=-1)


def _spread(runs: jax.Array) -> jax.Array:
    """1 divided equally between some places: bool `[b, m]` -> float32 `[b, m]`."""
    number = jnp.sum(runs, axis=-1, keepdims=True)
    return runs.astype(jnp.float32) / jnp.maximum(number, 1)


def _sums(losses, logits, right, weights):
    b = len(logits)
    guesses = jnp.argmax(logits.reshape(b, -1), axis=-1)[:, None]
    hits = jnp.take_along_axis(right.reshape(b, -1), guesses, axis=1)[:, 0]
    weights = weights.astype(jnp.float32)
    return jnp.sum(losses * weights), jnp.sum(hits * weights), jnp.sum(weights)
