"""Useful FLOPs of encoders with one sequence; see `models.useful_flops`."""

import numpy as np

from etc_jax.base import registry
from etc_jax.layers.self_attention import AttentionWindow, SequenceInputs, Sparse
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.useful_flops import (
    attention,
    pairs_between,
    pairs_within,
    projection,
)


def visible_pairs(
    pattern: AttentionWindow | Sparse | None,
    config: EncoderConfig,
    inputs: SequenceInputs,
) -> float:
    """Pairs of query and key that see each other in one layer, mean over its heads.

    Block-sparse attention counts whole blocks, of which no two of a row are the same:
    the neighbours, the global ones and the random ones.
    """
    # int [b, n]
    ids = np.asarray(inputs.example_ids)
    if isinstance(pattern, AttentionWindow):
        return _of_windows(pattern, config, ids, inputs.global_index)
    if pattern is None or ids.shape[1] <= pattern.full_attention_length:
        return pairs_between(ids, ids)
    return sum(_of_blocks(pattern, int(n)) for n in np.sum(ids > 0, axis=1))


def _of_windows(
    window: AttentionWindow, config, ids: np.ndarray, global_index
) -> float:
    steps = window.dilation
    steps = (steps,) * config.num_heads if isinstance(steps, int) else tuple(steps)
    index, globals_ = np.arange(ids.shape[1]), global_ids(ids, global_index)
    # A global token sees all, is seen by all, and is in no window.
    local = np.array(ids)
    if global_index is not None:
        row, column = np.nonzero(globals_)
        local[row, np.asarray(global_index)[row, column]] = 0
    total = 2.0 * pairs_between(globals_, ids) - pairs_between(globals_, globals_)
    # A mean over heads, which differ in dilation alone.
    for step in set(steps):
        last = index if window.causal else index + window.radius * step
        near = pairs_within(local, index - window.radius * step, last, step)
        total += near * steps.count(step) / len(steps)
    return total


def _offsets(pattern, config: EncoderConfig, products: float) -> float:
    """Products of queries with offsets, as many as with keys, and the map of offsets.

    Args:
      pattern: what tokens see.
      config: of the model.
      products: see `attention`, of which half are with keys.
    """
    if config.positions != "relative":
        return 0.0
    width, steps = config.embed_dim, pattern.dilation
    kinds = 1 if isinstance(steps, int) else len(set(steps))
    table = projection(kinds * (pattern.radius + 1), width, width)
    return table + products / 2


def global_ids(ids: np.ndarray, global_index) -> np.ndarray:
    """The example of each global token, 0 for none: `[b, g]`."""
    if global_index is None:
        return np.zeros((len(ids), 0), ids.dtype)
    index = np.asarray(global_index)
    # [b, n] at [b, g] -> [b, g]
    examples = np.take_along_axis(ids, np.maximum(index, 0), axis=1)
    return np.where(index >= 0, examples, 0)


def _of_blocks(sparse: Sparse, n: int) -> float:
    """Pairs of a sequence of n real tokens."""
    # Tokens that see all and are seen by all.
    held = sparse.num_globals or 2 * sparse.block_size
    near = min(n, held + (3 + sparse.num_random) * sparse.block_size)
    num_globals = min(n, held)
    return float(num_globals * n + (n - num_globals) * near)


def body(config: EncoderConfig, inputs: SequenceInputs) -> float:
    """Of the encoder's forward pass on a batch in numpy."""
    c, width = config, config.embed_dim
    ids = np.asarray(inputs.example_ids)
    tokens = int(np.sum(ids > 0))
    # Queries, keys, values, output.
    dense = 4 * projection(tokens, width, width)
    # Both maps of the feed-forward block.
    dense += 2 * projection(tokens, width, c.mlp_dim)
    num_globals = int(np.sum(global_ids(ids, inputs.global_index) > 0))
    if num_globals:
        # Keys and values of their own for all tokens, queries for the global ones.
        dense += projection(2 * tokens + num_globals, width, width)
    layers = []
    for pattern in c.patterns:
        products = attention(visible_pairs(pattern, c, inputs), c)
        layers.append(dense + products + _offsets(pattern, c, products))
    return c.num_layers // len(layers) * sum(layers)


def masked_logits(config: EncoderConfig) -> float:
    """Of one masked token: its map and the token table."""
    return projection(1, config.embed_dim, config.embed_dim + config.vocab_size)


def causal_logits(config: EncoderConfig) -> float:
    """Of one token that is followed."""
    return projection(1, config.embed_dim, config.vocab_size)


@registry.register("useful_flops", "bert")
@registry.register("useful_flops", "roberta")
@registry.register("useful_flops", "longformer")
@registry.register("useful_flops", "big_bird")
class EncoderFlops:
    """See `useful_flops.Flops`."""

    body = staticmethod(body)
    masked_logits = staticmethod(masked_logits)
    causal_logits = staticmethod(causal_logits)
