"""Useful FLOPs of Reformer; see `models.useful_flops`."""

import numpy as np

from etc_jax.base import registry
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.ops.flops import attention, pairs_within, projection


def _local_pairs(config: ReformerConfig, ids: np.ndarray) -> int:
    look, index = config.looks["local"], np.arange(ids.shape[1])
    # [n]: the chunk of each token, and the first and last place it looks at.
    chunk = index // look.chunk_length
    first = (chunk - look.before) * look.chunk_length
    last = (chunk + 1 + look.after) * look.chunk_length - 1
    return pairs_within(ids, first, index if config.causal else last)


def _lsh_pairs(config: ReformerConfig, ids: np.ndarray) -> int:
    look = config.looks["lsh"]
    seen = look.chunk_length * (1 + look.before + look.after)
    # [b, n] -> [b]
    tokens = np.sum(ids > 0, axis=1)
    return config.num_hashes * int(np.sum(tokens * np.minimum(seen, tokens)))


def body(config: ReformerConfig, inputs: SequenceInputs) -> float:
    """Of the layers' forward pass on a batch in numpy.

    LSH layers count what the paper does (Kitaev et al. 2020, table 1): `num_hashes`
    rounds of all tokens of the chunks that are looked at, causal or not, without
    hashing. In local layers a causal token sees those before it.
    """
    c, ids = config, np.asarray(inputs.example_ids)
    tokens, inner = int(np.sum(ids > 0)), c.num_heads * c.attention_head_dim
    one = projection(tokens, c.embed_dim, inner)
    by_kind = {
        "local": 4 * one + attention(_local_pairs(c, ids), c),
        # One projection serves queries and keys.
        "lsh": 3 * one + attention(_lsh_pairs(c, ids), c),
    }
    feed_forward = 2 * projection(tokens, c.embed_dim, c.mlp_dim)
    layers = [by_kind[kind] + feed_forward for kind in c.pattern]
    return c.num_layers // len(layers) * sum(layers)


def logits(config: ReformerConfig) -> float:
    """Of one token, from both streams."""
    return projection(1, 2 * config.embed_dim, config.vocab_size)


@registry.register("useful_flops", "reformer")
class ReformerFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(logits)
    causal_logits = staticmethod(logits)
