"""T5 as a LongT5 with sums of blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.extension import extended
from etc_jax.models.extension import (
    Extended,
    Extension,
    Target,
    common_fields,
    length_of,
)
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.t5.config import T5Config

_ATTENTION = re.compile(r"(encoder\.block\.\d+\.layer\.0\.)SelfAttention\.(.*)")


def extend(params: Mapping[str, Any], config: T5Config, asked: Extension) -> Extended:
    """A LongT5; see `Target`."""
    fields = common_fields(config, type(config))
    fields["max_length"] = length_of(config, asked)
    if asked.window is not None:
        fields["radius"] = asked.window // 2
    if asked.block_size is not None:
        fields["block_size"] = asked.block_size
    weights = encoder_decoder.export_hf(params, config)
    long = {_ATTENTION.sub(_long_name, name): x for name, x in weights.items()}
    for name, array in list(long.items()):
        start, key, _ = name.partition("TransientGlobalSelfAttention.")
        if name.endswith(f"{key}q.weight") and key:
            long[f"{start}{key}global_input_layer_norm.weight"] = np.ones(
                config.embed_dim, array.dtype
            )
        if key and name.endswith("relative_attention_bias.weight"):
            # Blocks begin as tokens at as many places.
            long[f"{start}{key}global_relative_attention_bias.weight"] = array
    return extended(params, config, LongT5Config(**fields), long)


def _long_name(match: re.Match) -> str:
    return f"{match[1]}TransientGlobalSelfAttention.{match[2]}"


EXTENSION = Target((T5Config,), extend, ("window", "block_size"))
