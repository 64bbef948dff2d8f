"""Token caches of random documents, all of as many short sentences."""

import numpy as np

from etc_jax.data.text.cache import TokenCache
from etc_jax.data.tokenizers.tokenizer import TokenIds


def token_cache(
    ids: TokenIds, documents: int, *, sentences=7, lengths=(3, 5), word_starts=0.7
) -> TokenCache:
    """Makes one in memory.

    Args:
      ids: of the vocabulary; tokens are regular ones.
      documents: how many there are.
      sentences: of each document.
      lengths: a sentence has from the first of these up to the second, not included.
      word_starts: the share of tokens that begin a word.
    """
    rng = np.random.default_rng(0)
    sizes = rng.integers(*lengths, sentences * documents)
    tokens = rng.integers(*ids.regular_ids, sizes.sum())
    return TokenCache.from_arrays(
        tokens.astype(np.uint16),
        rng.random(len(tokens)) < word_starts,
        np.concatenate([[0], np.cumsum(sizes)]),
        sentences * np.arange(documents + 1),
        vocab_size=ids.vocab_size,
    )
