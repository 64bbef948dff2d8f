"""Documents of few words, and a vocabulary that is trained on them."""

import numpy as np

from etc_jax.data.text.corpus import Document
from etc_jax.data.tokenizers import tokenizer

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "alphabetical"]
VOCAB_SIZE = 145


def make_documents(count=120):
    """Of two sources, some without text."""
    rng = np.random.default_rng(0)
    return [
        Document(
            f"{'ab'[i % 2]}/{i}",
            tuple(
                " ".join(rng.choice(WORDS, rng.integers(1, 9)))
                for _ in range(rng.integers(0, 6))
            ),
            replaced_chars=i % 3,
        )
        for i in range(count)
    ]


def trained_on(documents, vocab_size=VOCAB_SIZE):
    texts = [p for d in documents for p in d.paragraphs]
    return tokenizer.train(texts, vocab_size=vocab_size, min_char_count=1)
