"""Useful FLOPs of ETC; see `models.useful_flops`."""

from collections.abc import Iterable

import numpy as np

from etc_jax.base import registry
from etc_jax.models.etc.config import EtcConfig
from etc_jax.ops.flops import (
    attention,
    pairs_between,
    pairs_within,
    projection,
)
from etc_jax.structure import Rules, Structure


def visible_pairs(rules: Rules, structure: Structure) -> int:
    """Pairs of query and key that see each other in a batch, of all four pieces."""
    # [b, n], [b, g]; 0 is padding.
    long_ids = np.asarray(structure.long_example_ids)
    global_ids = np.asarray(structure.global_example_ids)
    index = np.arange(long_ids.shape[1])
    groups = long_ids
    if structure.long_segment_ids is not None:
        segments = np.asarray(structure.long_segment_ids).astype(np.int64)
        # One number for each example and segment; padding stays 0.
        wide = segments - segments.min(initial=0)
        groups = long_ids * (1 + wide.max(initial=0)) + wide
        groups = np.where(long_ids > 0, groups + 1, 0)
    pairs = pairs_within(groups, index - rules.radius, index + rules.radius)
    pairs += pairs_between(global_ids, global_ids)
    tied = _tied(rules, structure)
    between = pairs_between(long_ids, global_ids)
    if rules.hard_l2g:
        pairs += _hard(tied, long_ids, global_ids, structure.exempt_l2g, side=1)
    else:
        pairs += between
    if rules.hard_g2l:
        pairs += _hard(tied, global_ids, long_ids, structure.exempt_g2l, side=2)
    else:
        pairs += between
    return pairs


def _tied(rules: Rules, structure: Structure) -> np.ndarray:
    """(row, long token, global token) of ties that open hard masks, each once."""
    links = np.asarray(structure.links)
    # [b, n, columns] -> those whose links open hard masks.
    columns = [c for c in range(links.shape[-1]) if rules.links[c].opens]
    links = links[..., columns]
    # [ties, 3]; a pair that two columns tie is one.
    row, i, column = np.nonzero(links >= 0)
    tied = np.unique(np.stack([row, i, links[row, i, column]], axis=1), axis=0)
    long_ids = np.asarray(structure.long_example_ids)[tied[:, 0], tied[:, 1]]
    global_ids = np.asarray(structure.global_example_ids)[tied[:, 0], tied[:, 2]]
    return tied[(long_ids == global_ids) & (long_ids > 0)]


def _hard(tied, query_ids, key_ids, exempt, *, side: int) -> int:
    """Pairs under a hard mask; queries are column `side` of the ties."""
    if exempt is None:
        return len(tied)
    exempt = np.asarray(exempt)
    # Exempt queries see all of their example, tied or not.
    bound = ~exempt[tied[:, 0], tied[:, side]]
    free = pairs_between(np.where(exempt, query_ids, 0), key_ids)
    return int(bound.sum()) + free


def _layers(config: EtcConfig, structure: Structure) -> float:
    """Of all layers on one input."""
    c, inner = config, config.num_heads * config.attention_head_dim
    long = int(np.sum(np.asarray(structure.long_example_ids) > 0))
    tokens = long + int(np.sum(np.asarray(structure.global_example_ids) > 0))
    pairs = visible_pairs(c.rules, structure)
    feed_forward = 2 * projection(tokens, c.embed_dim, c.mlp_dim)
    # Query, output, and keys and values for long and for global queries.
    matrices = 4 if c.share_qkv else 6
    # A product of each query with its whole table.
    labels = projection(tokens, inner, c.num_labels or 0)
    by_kind = {
        "global_local": matrices * projection(tokens, c.embed_dim, inner)
        + labels
        + attention(pairs, c),
        # Kitaev et al. 2020, table 1: in each round a token sees its chunk and the one
        # before. One projection serves queries and keys.
        "lsh": 3 * projection(tokens, c.embed_dim, inner)
        + attention(c.num_hashes * tokens * 2 * c.lsh_chunk_length, c),
    }
    repeats = c.num_layers // len(c.pattern)
    return repeats * sum(by_kind[kind] + feed_forward for kind in c.pattern)


def body(config: EtcConfig, inputs: Iterable[Structure]) -> float:
    """Of the encoder's forward pass on inputs of a batch, in numpy.

    Label tables count once a query and label. LSH layers count what their paper does:
    `num_hashes` rounds of two chunks a token, causal or not, without hashing.
    """
    total = 0.0
    for structure in inputs:
        total += _layers(config, structure)
        if config.token_dim != config.embed_dim:
            ids = structure.long_example_ids, structure.global_example_ids
            tokens = sum(int(np.sum(np.asarray(x) > 0)) for x in ids)
            total += projection(tokens, config.token_dim, config.embed_dim)
    return total


def masked_logits(config: EtcConfig) -> float:
    """Of one masked token: its map and the token table."""
    return projection(1, config.embed_dim, config.token_dim) + projection(
        1, config.token_dim, config.vocab_size
    )


@registry.register("useful_flops", "etc")
class EtcFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(masked_logits)
