"""Useful FLOPs of encoder-decoders; see `models.useful_flops`."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.layers.self_attention import Local, Pattern, SequenceInputs
from etc_jax.models.encoder import flops as encoder_flops
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig, Side
from etc_jax.models.sled.body import marks_of_windows
from etc_jax.models.useful_flops import (
    attention,
    pairs_between,
    pairs_within,
    projection,
)
from etc_jax.ops.attention.pooled_block import Blocks, Pool


def _own_pairs(
    pattern: Pattern, config: EncoderDecoderConfig, inputs: SequenceInputs
) -> float:
    """Pairs of query and key, or sum of a block, in one layer of the encoder."""
    if not isinstance(pattern, Local | Blocks):
        return encoder_flops.visible_pairs(pattern, config, inputs)
    ids = np.asarray(inputs.example_ids)
    index = np.arange(ids.shape[1])
    if isinstance(pattern, Blocks):
        return _block_pairs(pattern, ids, index)
    near = pairs_within(ids, index - pattern.radius, index + pattern.radius)
    return near + pairs_between(ids, _block_ids(pattern, ids))


def _block_pairs(pattern: Blocks, ids: np.ndarray, index: np.ndarray) -> float:
    is_global = index % pattern.size < pattern.num_globals
    others, globals_ = (np.where(keep, ids, 0) for keep in (~is_global, is_global))
    first = index // pattern.size * pattern.size
    last = first + pattern.size - 1
    near = pairs_within(others, first - pattern.reach, last + pattern.reach)
    return near + pairs_between(others, globals_) + pairs_between(globals_, ids)


def _averages(config: EncoderDecoderConfig, pool: Pool, ids: np.ndarray) -> float:
    """Attention to averages, with its maps, of one layer."""
    c, tokens = config, int(np.sum(ids > 0))
    lengths = np.sum(ids > 0, axis=1)
    pairs = sum(int(n) * pool.count(int(n)) for n in lengths)
    maps = projection(4 * tokens, c.embed_dim, c.num_heads * c.attention_head_dim)
    return maps + attention(pairs, c)


def _block_ids(pattern: Local, ids: np.ndarray) -> np.ndarray:
    """The example of each sum of a block, 0 for none: `[b, n]`."""
    block_ids = np.zeros_like(ids)
    if pattern.block_size is None:
        return block_ids
    for row, row_ids in zip(ids, block_ids, strict=True):
        names, lengths = np.unique(row[row > 0], return_counts=True)
        blocks = np.repeat(names, lengths // pattern.block_size)
        row_ids[: len(blocks)] = blocks
    return block_ids


def _mlp(config: EncoderDecoderConfig, side: Side, tokens: int) -> float:
    maps = 3 if config.gated else 2
    return maps * projection(tokens, config.embed_dim, side.mlp_dim)


def _encoder(config: EncoderDecoderConfig, inputs: SequenceInputs) -> float:
    c, side = config, config.encoder_side
    ids = np.asarray(inputs.example_ids)
    tokens, inner = int(np.sum(ids > 0)), c.num_heads * c.attention_head_dim
    # Queries, keys, values, output.
    dense = 4 * projection(tokens, c.embed_dim, inner) + _mlp(c, side, tokens)
    num_globals = int(np.sum(encoder_flops.global_ids(ids, inputs.global_index) > 0))
    if num_globals:
        # Keys and values of their own for all tokens, queries for the global ones.
        dense += projection(2 * tokens + num_globals, c.embed_dim, inner)
    layers = []
    for pattern in side.patterns:
        products = attention(_own_pairs(pattern, c, inputs), c)
        if isinstance(pattern, Local):
            # Keys and values of the sums.
            sums = int(np.sum(_block_ids(pattern, ids) > 0))
            products += projection(2 * sums, c.embed_dim, inner)
        layers.append(dense + products)
    below = side.num_layers - side.top_layers
    total = below // len(layers) * sum(layers)
    if side.top_layers:
        blocks, pool = side.top_pattern
        one = dense + attention(_own_pairs(blocks, c, inputs), c)
        total += side.top_layers * (one + _averages(c, pool, ids))
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
    c, side = config, config.decoder_side
    tokens, index = int(np.sum(ids > 0)), np.arange(ids.shape[1])
    maps = projection(4 * tokens, c.embed_dim, c.num_heads * c.attention_head_dim)
    self_attention = maps + attention(pairs_within(ids, 0 * index, index), c)
    layer = self_attention + cross_attention(c, memory, ids) + _mlp(c, side, tokens)
    return side.num_layers * layer


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


@registry.register("useful_flops", "bart")
@registry.register("useful_flops", "led")
@registry.register("useful_flops", "t5")
@registry.register("useful_flops", "long_t5")
@registry.register("useful_flops", "bart_ls")
class EncoderDecoderFlops:
    """See `useful_flops.Flops`; inputs are a pair, of the encoder and the decoder."""

    body = staticmethod(body)
    causal_logits = staticmethod(encoder_flops.causal_logits)
