"""Random text in which every token can be told by its id, and readers of it."""

import jax
import numpy as np

from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text import packing
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.tokenizers.tokenizer import TokenIds

N, G = 256, 40
# Room for everything that can be masked.
AMPLE = PretrainingSizes(N, G, mlm_capacity=N, cpc_long_length=N, cpc_global_length=G)


def ids_of(cache):
    vocab_size = cache.header["vocab_size"]
    return TokenIds(0, 1, 2, 103, regular_ids=(104, vocab_size), vocab_size=vocab_size)


def make_cache(num_documents, *, longest, vocab_size=None, seed=0):
    """Random documents. Without `vocab_size` each token has an id of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, longest, num_documents)
    lengths = 1 + rng.gamma(2.0, 5.0, sizes.sum()).astype(int)
    offsets = np.cumsum([0, *lengths])
    words = rng.random(offsets[-1]) < 0.7
    words[offsets[:-1]] = True
    tokens = 104 + np.arange(offsets[-1], dtype=np.uint32)
    if vocab_size is not None:
        tokens = rng.integers(104, vocab_size, offsets[-1]).astype(np.uint32)
    return TokenCache.from_arrays(
        tokens,
        words,
        offsets,
        np.cumsum([0, *sizes]),
        vocab_size=vocab_size or 104 + len(tokens),
    )


def make_plan(cache, **kwargs):
    kwargs = {"long_length": N, "global_length": G, "max_sentence_tokens": 40} | kwargs
    return packing.pack(cache, **kwargs)


def make_reader(cache, plan, sizes=AMPLE, **kwargs):
    kwargs = {"batch_size": 8, "seed": 3} | kwargs
    return PretrainingReader(cache, plan, ids_of(cache), sizes, **kwargs)


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def take(batch, rows):
    return jax.tree.map(lambda x: x[rows], batch)


def restored(batch, name="tokens"):
    """The tokens of a batch before words were masked."""
    tokens = batch[name].copy()
    rows, places = np.nonzero(batch["mlm_weights"])
    targets = batch["mlm_targets"][rows, places]
    tokens[rows, batch["mlm_positions"][rows, places]] = targets
    return tokens


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
