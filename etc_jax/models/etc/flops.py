"""Useful FLOPs of ETC; see `models.useful_flops`."""

from collections.abc import Iterable

import numpy as np

from etc_jax.models.etc.config import EtcConfig
from etc_jax.ops.flops import projection
from etc_jax.structure import Structure


def _layers(config: EtcConfig, structure: Structure) -> float:
    """Of all layers on one input."""
    c = config
    ids = structure.long_example_ids, structure.global_example_ids
    tokens = sum(int(np.sum(np.asarray(x) > 0)) for x in ids)
    feed_forward = 2 * projection(tokens, c.embed_dim, c.mlp_dim)
    layers = [feed_forward + pattern.flops(c, structure) for pattern in c.patterns]
    return c.num_layers // len(layers) * sum(layers)


def body(config: EtcConfig, inputs: Iterable[Structure]) -> float:
    """Of the encoder's forward pass on inputs of a batch, in numpy.

    Label tables count once a query and label.
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


class EtcFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(masked_logits)
