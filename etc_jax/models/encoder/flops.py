"""Useful FLOPs of encoders with one sequence; see `models.useful_flops`."""

import numpy as np

from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.ops.flops import projection


def body(config: EncoderConfig, inputs: SequenceInputs) -> float:
    """Of the encoder's forward pass on a batch in numpy."""
    c, tokens = config, int(np.sum(np.asarray(inputs.example_ids) > 0))
    feed_forward = 2 * projection(tokens, c.embed_dim, c.mlp_dim)
    layers = [feed_forward + pattern.flops(c, inputs) for pattern in c.patterns]
    return c.num_layers // len(layers) * sum(layers)


def masked_logits(config: EncoderConfig) -> float:
    """Of one masked token: its map and the token table."""
    return projection(1, config.embed_dim, config.embed_dim + config.vocab_size)


def causal_logits(config: EncoderConfig) -> float:
    """Of one token that is followed."""
    return projection(1, config.embed_dim, config.vocab_size)


class EncoderFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(masked_logits)
    causal_logits = staticmethod(causal_logits)
