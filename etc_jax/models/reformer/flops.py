"""Useful FLOPs of Reformer; see `models.useful_flops`."""

import numpy as np

from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.ops.flops import projection


def body(config: ReformerConfig, inputs: SequenceInputs) -> float:
    """Of the layers' forward pass on a batch in numpy."""
    tokens = int(np.sum(np.asarray(inputs.example_ids) > 0))
    feed_forward = 2 * projection(tokens, config.embed_dim, config.mlp_dim)
    layers = [feed_forward + p.flops(config, inputs) for p in config.patterns]
    return config.num_layers // len(layers) * sum(layers)


def logits(config: ReformerConfig) -> float:
    """Of one token, from both streams."""
    return projection(1, 2 * config.embed_dim, config.vocab_size)


class ReformerFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(logits)
    causal_logits = staticmethod(logits)
