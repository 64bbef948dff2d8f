"""Words from their pieces, and which runs of words there are."""

import jax
import jax.numpy as jnp

# Longest run (ETC paper, appendix C, OpenKP).
MAX_WORDS = 5
# What the official code gives runs that reach beyond the text: a probability of 0.
NO_NGRAM = -10000.0


def sum_words(x: jax.Array, words: jax.Array) -> jax.Array:
    """The sum of the rows of each word.

    Args:
      x: `[b, n, e]`, a row for each token.
      words: int `[b, n]`, the word that a token is a piece of, in 0..n - 1; -1 for
        those of none.

    Returns:
      float32 `[b, n, e]`, a row for each word; zeros for words without a token.
    """
    n = x.shape[1]
    # n: beyond the last row, so left out.
    index = jnp.where(words < 0, n, words)

    def one(rows, index):
        return jax.ops.segment_sum(rows, index, num_segments=n)

    return jax.vmap(one)(x.astype(jnp.float32), index)


def num_words(words: jax.Array) -> jax.Array:
    """How many words there are: int `[b, n]`, -1 for none -> `[b]`."""
    return jnp.max(words, axis=1) + 1


def ngram_mask(number: jax.Array, n: int, longest: int = MAX_WORDS) -> jax.Array:
    """Where an n-gram of some length begins and ends inside of a text.

    Args:
      number: int `[b]`, words of each text.
      n: places for words.
      longest: words of the longest n-gram.

    Returns:
      bool `[b, longest, n]`: [_, k - 1, i] is True if words i to i + k - 1 are there.
    """
    # One past the last word of each n-gram, [longest, n].
    ends = jnp.arange(n)[None, :] + jnp.arange(1, longest + 1)[:, None]
    return ends[None] <= number[:, None, None]
