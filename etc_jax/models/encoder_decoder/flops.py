"""Useful FLOPs of encoder-decoders; see `models.useful_flops`."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.encoder import flops as encoder_flops
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig, Side
from etc_jax.models.sled.body import marks_of_windows
from etc_jax.ops.flops import attention, pairs_between, projection


def _mlp(config: EncoderDecoderConfig, side: Side, tokens: int) -> float:
    maps = 3 if config.gated else 2
    return maps * projection(tokens, config.embed_dim, side.mlp_dim)


def _encoder(config: EncoderDecoderConfig, inputs: SequenceInputs) -> float:
    c, side = config, config.encoder_side
    mlp = _mlp(c, side, int(np.sum(np.asarray(inputs.example_ids) > 0)))
    layers = [mlp + pattern.flops(c, inputs) for pattern in side.patterns]
    below = side.num_layers - side.top_layers
    total = below // len(layers) * sum(layers)
    if side.top_layers:
        total += side.top_layers * (mlp + side.top_pattern.flops(c, inputs))
    return total


def cross_attention(config: Any, memory: np.ndarray, ids: np.ndarray) -> float:
    """Of one layer: tokens of numbers `ids` `[b, m]` read rows of `memory` `[b, n]`."""
    tokens, read = int(np.sum(ids > 0)), int(np.sum(memory > 0))
    # Queries and output of the tokens; keys and values of what they read.
    maps = 2 * (tokens + read)
    inner = config.num_heads * config.attention_head_dim
    pairs = pairs_between(ids, memory)
    return projection(maps, config.embed_dim, inner) + attention(pairs, config)


def _decoder(config: EncoderDecoderConfig, memory: np.ndarray, ids: np.ndarray):
    side = config.decoder_side
    # Heads of the decoder's own number.
    c = dataclasses.replace(config, num_heads=side.num_heads)
    tokens = int(np.sum(ids > 0))
    (causal,) = side.patterns
    layer = causal.flops(c, SequenceInputs(ids)) + cross_attention(c, memory, ids)
    return side.num_layers * (layer + _mlp(c, side, tokens))


def body(
    config: EncoderDecoderConfig, inputs: tuple[SequenceInputs, SequenceInputs]
) -> float:
    """Of encoder and decoder on a batch in numpy: what each of them reads."""
    source, target = inputs
    ids = np.asarray(target.example_ids)
    memory = np.asarray(source.example_ids)
    if config.sled.window:
        marks = marks_of_windows(config.sled, jnp.asarray(memory))
        source = SequenceInputs(np.asarray(marks))
        if not config.sled.prefix_in_memory:
            memory = memory[:, config.sled.prefix_length :]
    return _encoder(config, source) + _decoder(config, memory, ids)


class EncoderDecoderFlops:
    """See `useful_flops.Flops`; inputs are a pair, of the encoder and the decoder."""

    body = staticmethod(body)
    causal_logits = staticmethod(encoder_flops.causal_logits)
