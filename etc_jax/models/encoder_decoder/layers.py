"""Layers of encoder-decoders: shared blocks by the choices of a config."""

import functools
from collections.abc import Callable
from typing import Any

from flax import linen as nn

from etc_jax.layers.block import Block
from etc_jax.layers.common import LayerNorm, Mlp, RmsNorm
from etc_jax.layers.cross_attention import CrossAttention
from etc_jax.layers.self_attention import Pattern
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig, Side


def make_norm(config: EncoderDecoderConfig, name: str | None = None) -> nn.Module:
    kind = RmsNorm if config.rms_norm else LayerNorm
    return kind(config.layer_norm_epsilon, config.compute_dtype, name=name)


def attention_options(
    config: EncoderDecoderConfig, side: Side, deterministic: bool
) -> dict[str, Any]:
    """Fields of all attention of one side."""
    c, spreads = config, config.spreads(side)
    return {
        "num_heads": side.num_heads,
        "head_dim": c.head_dim or c.embed_dim // side.num_heads,
        "stddev": spreads.projection,
        "query_stddev": spreads.query,
        "out_stddev": spreads.out,
        "projection_bias": c.use_bias,
        "out_bias": c.use_bias,
        "scale": c.attention_scale,
        "dropout_rate": side.attention_dropout_rate,
        "implementation": c.attention,
        "deterministic": deterministic,
        "dtype": c.compute_dtype,
    }


def make_layer(
    config: EncoderDecoderConfig,
    side: Side,
    deterministic: bool,
    i: int,
    pattern: Pattern,
    cache_length: int | None = None,
) -> Callable[[], Block]:
    """Makes layer `i` of a run; one of a decoder has cross-attention.

    Args:
      config: of the model.
      side: encoder or decoder.
      deterministic: no dropout.
      i: number of the layer in the run.
      pattern: what its tokens see.
      cache_length: see `SelfAttention`.
    """
    c, spreads = config, config.spreads(side)
    attention = attention_options(c, side, deterministic)
    mlp = functools.partial(
        Mlp,
        side.mlp_dim,
        c.activation,
        spreads.wi,
        c.compute_dtype,
        gated=c.gated,
        use_bias=c.use_bias,
        wide_dropout_rate=c.activation_dropout_rate,
        out_stddev=spreads.wo,
        deterministic=deterministic,
    )
    cross = functools.partial(CrossAttention, **attention)

    def self_attention(name: str) -> nn.Module:
        return pattern.module(name=name, cache_length=cache_length, **attention)

    return functools.partial(
        Block,
        self_attention,
        lambda name: mlp(name=name),
        functools.partial(make_norm, c),
        c.dropout_rate,
        cross_attention=(lambda name: cross(name=name)) if side.causal else None,
        deterministic=deterministic,
        pre_norm=c.pre_norm,
        name=f"layer_{i}",
    )
