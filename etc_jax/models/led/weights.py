"""LED as Hugging Face writes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from etc_jax.base.rules import either, listed, whole
from etc_jax.conversion.config_rules import one_each
from etc_jax.conversion.engine import Row
from etc_jax.conversion.renaming import shortest_run
from etc_jax.conversion.torch_rows import linear
from etc_jax.models.bart import weights as bart
from etc_jax.models.encoder_decoder.config import Side
from etc_jax.models.encoder_decoder.hf_config import SIZE, Key, Keys
from etc_jax.models.encoder_decoder.weights import exchange_of, projections
from etc_jax.models.led.config import LedConfig

_LOG = logging.getLogger(__name__)


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `Keys`."""
    key, layers = "attention_window", values["encoder_layers"]
    windows = one_each(values[key], layers, key)
    return {**bart.fields_from(values), "attention_window": shortest_run(windows)}


def values_to(config: LedConfig) -> dict[str, Any]:
    """See `Keys`."""
    rate = config.attention_dropout_rate
    if (of_encoder := config.encoder_side.attention_dropout_rate) != rate:
        _LOG.warning(
            "attention dropout is %s in the encoder and %s in the decoder; LED of "
            "transformers has one rate, for training alone: the decoder's is written",
            of_encoder,
            rate,
        )
    if config.scale_embedding:
        raise ValueError(
            "scale_embedding is True, but transformers' LED has no such scale; keep "
            "this model here"
        )
    repeats = config.num_layers // len(config.patterns)
    # One side -> both sides together.
    windows = [2 * window.radius for window in config.patterns] * repeats
    return {**bart.values_to(config), "attention_window": windows}


def names(config: LedConfig) -> tuple[Row, ...]:
    """See `bart.weights.names`."""
    return bart.names(config, _attention)


def _attention(theirs: str, ours: str, side: Side) -> list[Row]:
    kernel, bias, out = projections(side)
    theirs, ours, rows = f"{theirs}self_attn.", f"{ours}attention/", []
    for kind in ("query", "key", "value"):
        for name in (kind, f"{kind}_global"):
            source = f"{theirs}longformer_self_attn.{name}"
            rows += linear(source, f"{ours}{name}", kernel, bias)
    return [*rows, *linear(f"{theirs}output", f"{ours}out", out)]


EXCHANGE = exchange_of(
    LedConfig,
    Keys(
        {
            **bart.KEYS,
            "max_encoder_position_embeddings": Key(SIZE, 16384, "max_length"),
            "max_decoder_position_embeddings": Key(SIZE, 1024, "max_target_length"),
            "attention_window": Key(either(whole(2), listed(whole(2))), 512),
        },
        {**bart.ONLY, "scale_embedding": False},
        bart.WRITTEN,
        "LED",
        fields_from,
        values_to,
        "led.",
    ),
    tokenizer_class="LEDTokenizer",
)
