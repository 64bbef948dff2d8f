"""A small text with a structure that a small model learns, and its token caches."""

import numpy as np
import pytest
from tiny_text import LEXICON

from etc_jax.data.text import corpus, prepare

VOCAB_SIZE = 256
VALIDATION = 0.4

# Changes of configs/quickstart/quickstart.py for this text.
SMALL = {
    "model.vocab_size": VOCAB_SIZE,
    "model.embed_dim": 64,
    "model.num_layers": 2,
    "model.num_heads": 2,
    "model.mlp_dim": 128,
    "model.radius": 8,
    "data.vocab_size": VOCAB_SIZE,
    "data.validation_fraction": VALIDATION,
    "data.long_length": 128,
    "data.global_length": 16,
    "optimizer.learning_rate": 3e-3,
    "schedule.warmup_steps": 2,
    "train.num_steps": 6,
    "train.log_every_steps": 1,
    "train.eval_every_steps": 3,
    "train.eval_steps": 2,
    "checkpoint.every_steps": 100,
}


def small_documents() -> tuple[corpus.Document, ...]:
    """Documents that walk round a circle of words: what is next, and next to next.

    A masked word follows from its neighbours, a masked sentence from the sentences
    around it. Each sentence begins with a word that is its document's own.
    """
    rng = np.random.default_rng(0)
    documents = []
    for d in range(100):
        place, sentences = int(rng.integers(len(LEXICON))), []
        for length in rng.integers(8, 13, 12):
            words = [LEXICON[(place + i) % len(LEXICON)] for i in range(length)]
            words[0] = LEXICON[d]
            sentences.append(" ".join(words).capitalize() + ".")
            place += int(length)
        documents.append(corpus.Document(f"small/{d}", tuple(sentences)))
    return tuple(documents)


def make_cache(folder) -> str:
    """Makes token caches of the small text, where those of the built-in text would be.

    Returns:
      `data.cache_dir` of a config with `VOCAB_SIZE` and `VALIDATION`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            corpus, "built_in_corpus", lambda _: corpus.Corpus(small_documents())
        )
        source = corpus.BuiltInSource()
        prepare.prepare(
            folder, source=source, vocab_size=VOCAB_SIZE, validation=VALIDATION
        )
    return str(folder)
