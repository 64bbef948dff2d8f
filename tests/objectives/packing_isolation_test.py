"""Nothing of one packed document is visible from another: by gradients, to the bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params
from random_sentences import token_cache
from tiny_model import token_ids

from etc_jax.base.types import Rows
from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text.packing import pack
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig

VOCAB_SIZE, N, G = 40, 48, 16
MODEL = EtcConfig(
    vocab_size=VOCAB_SIZE,
    num_types=2,
    embed_dim=16,
    num_layers=2,
    num_heads=2,
    mlp_dim=32,
    radius=9,
    max_distance=3,
    num_labels=10,
    initializer_range=0.2,
)


def packed_batch():
    """Two rows of four documents or more, half of their sentences masked for CPC."""
    ids = token_ids(VOCAB_SIZE)
    cache = token_cache(ids, 12, sentences=3, lengths=(2, 5), word_starts=1.0)
    plan = pack(
        cache, long_length=48, global_length=16, max_sentence_tokens=8, min_sentences=2
    )
    shares = MaskingShares(cpc=0.5)
    sizes = PretrainingSizes.default(48, 16, shares, max_sentence_tokens=8)
    reader = PretrainingReader(
        cache, plan, ids, sizes, batch_size=2, seed=0, shares=shares
    )
    return reader.batch_at(0)


BATCH = packed_batch()


def _row(prefix):
    """(tokens, structure) of the first row, as long as the longer of both inputs."""
    names = [f"{prefix}{kind}_tokens" for kind in ("long", "global")]
    lengths = {
        BATCH[name].shape[1]: size for name, size in zip(names, (N, G), strict=True)
    }
    assert len(lengths) == 2

    def first(x):
        x = np.asarray(x)[:1]
        more = lengths[x.shape[1]] - x.shape[1]
        return np.pad(x, [(0, 0), (0, more)] + [(0, 0)] * (x.ndim - 2))

    tokens = Rows(*(first(BATCH[name]) for name in names))
    return tokens, jax.tree.map(first, BATCH[f"{prefix}structure"])


@functools.cache
def _params():
    return random_params(Etc(MODEL).init, *_row("")[0], _row("")[1], spread=0.2)


@jax.jit
@jax.grad
def _reach(adders, tokens, structure, example):
    """Gradient, by what is added to each embedding, of one example's outputs."""
    out = Etc(MODEL).apply({"params": _params()}, *tokens, structure, adders=adders)
    # Uneven weights: the sum of a normalised row does not depend on its input.
    weight = jnp.arange(MODEL.embed_dim, dtype=jnp.float32)[None, None]
    examples = (structure.long_example_ids, structure.global_example_ids)
    return sum(
        jnp.sum(jnp.where(ids[..., None] == example, y * weight, 0))
        for ids, y in zip(examples, out, strict=True)
    )


@pytest.mark.parametrize("prefix", ["", "cpc_"])
def test_no_gradient_crosses_packed_documents(prefix):
    tokens, structure = _row(prefix)
    examples = Rows(
        np.array(structure.long_example_ids[0]),
        np.array(structure.global_example_ids[0]),
    )
    assert examples.long.max() >= 4
    adders = Rows(
        *(jnp.zeros((1, len(ids), MODEL.embed_dim)) for ids in examples),
    )
    for example in range(1, examples.long.max() + 1):
        reach = _reach(adders, tokens, structure, jnp.int32(example))
        for ids, found in zip(examples, reach, strict=True):
            inside = np.abs(np.array(found[0])).sum(-1)
            assert np.all(inside[ids == example] > 0)
            assert not np.any(inside[ids != example])
