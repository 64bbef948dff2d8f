"""Random text in which every token can be told by its id, and readers of it."""

import jax
import numpy as np

from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text import packing
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.tokenizers.tokenizer import TokenIds

N, G = 256, 40
FIRST = 104  # the first id that is no special token's
# Room for everything that can be masked.
AMPLE = PretrainingSizes(N, G, mlm_capacity=N, cpc_long_length=N, cpc_global_length=G)


def ids_of(cache):
    vocab_size = cache.header["vocab_size"]
    return TokenIds(0, 1, 2, 103, (FIRST, vocab_size), vocab_size)


def cache_of(documents, *, words=0.7, tokens=None, vocab_size=None, seed=0):
    """A cache of documents.

    Args:
      documents: the lengths of the sentences of each.
      words: which tokens start a word, besides the first of each sentence; or their
        share.
      tokens: ids; None: each has one of its own, counted upwards from `FIRST`.
      vocab_size: one more than the last id, if it is not given.
      seed: of the words.
    """
    offsets = np.cumsum([0, *(n for d in documents for n in d)])
    if isinstance(words, float):
        words = np.random.default_rng(seed).random(offsets[-1]) < words
    words[offsets[:-1]] = True
    if tokens is None:
        tokens = FIRST + np.arange(offsets[-1])
    return TokenCache.from_arrays(
        np.asarray(tokens, np.uint32),
        words,
        offsets,
        np.cumsum([0, *map(len, documents)]),
        vocab_size=vocab_size or int(max(tokens)) + 1,
    )


def make_cache(num_documents, *, longest, vocab_size=None, seed=0):
    """Random documents. Without `vocab_size` each token has an id of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, longest, num_documents)
    lengths = 1 + rng.gamma(2.0, 5.0, sizes.sum()).astype(int)
    words, tokens = rng.random(lengths.sum()) < 0.7, None
    if vocab_size is not None:
        tokens = rng.integers(FIRST, vocab_size, len(words))
    documents = np.split(lengths, np.cumsum(sizes)[:-1])
    return cache_of(documents, words=words, tokens=tokens, vocab_size=vocab_size)


def make_plan(cache, **kwargs):
    kwargs = {"long_length": N, "global_length": G, "max_sentence_tokens": 40} | kwargs
    return packing.pack(cache, **kwargs)


def make_reader(cache, plan, sizes=AMPLE, **kwargs):
    kwargs = {"batch_size": 8, "seed": 3} | kwargs
    return PretrainingReader(cache, plan, ids_of(cache), sizes, **kwargs)


def take(batch, rows):
    return jax.tree.map(lambda x: x[rows], batch)


def restored(batch, name="tokens"):
    """The tokens of a batch before words were masked."""
    tokens = batch[name].copy()
    rows, places = np.nonzero(batch["mlm_weights"])
    targets = batch["mlm_targets"][rows, places]
    tokens[rows, batch["mlm_positions"][rows, places]] = targets
    return tokens


def reconstructed(corrupted, sentinels):
    """The text of `span_corruption`, int `[n]`, of its whole input and target."""
    is_sentinel = np.isin(corrupted.target, sentinels)
    spans = np.split(corrupted.target, np.flatnonzero(is_sentinel))
    by_sentinel = {int(span[0]): span[1:] for span in spans if len(span)}
    parts = [by_sentinel.get(int(token), token[None]) for token in corrupted.input]
    return np.concatenate(parts) if parts else corrupted.input


def original(batch, row):
    """(tokens, sentence of each) before masking, from the batch alone."""
    example = take(batch, row)
    tokens = example["long_tokens"].copy()
    real = example["mlm_weights"] > 0
    tokens[example["mlm_positions"][real]] = example["mlm_targets"][real]
    links = example["structure"].links[:, 0]
    for j in np.flatnonzero(example.get("cpc_weights", [])):
        own = example["cpc_structure"].links[:, 0]
        masked = links == example["cpc_positions"][j]
        assert (tokens[masked] == 103).all()
        tokens[masked] = example["cpc_long_tokens"][own == j]
    used = example["structure"].long_example_ids > 0
    return tokens[used], links[used]
