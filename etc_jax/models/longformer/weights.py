"""Longformer as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.base.rules import either, listed, whole
from etc_jax.conversion.config_rules import one_each
from etc_jax.conversion.renaming import shortest_run
from etc_jax.models.encoder.hf_config import EncoderFamily
from etc_jax.models.encoder.weights import exchange_of
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta import weights as roberta


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `EncoderFamily`."""
    key, layers = "attention_window", values["num_hidden_layers"]
    windows = one_each(values[key], layers, key)
    return {**roberta.fields_from(values), "attention_window": shortest_run(windows)}


def values_to(config: LongformerConfig) -> dict[str, Any]:
    """See `EncoderFamily`."""
    if config.positions != "learnt":
        raise ValueError(
            f"positions are {config.positions!r}, but transformers' Longformer has "
            "a table of them; keep this model here"
        )
    if config.pre_norm:
        raise ValueError(
            "pre_norm is True, but transformers' Longformer has its norms after "
            "the residuals; keep this model here"
        )
    if config.causal or any(w.dilation != 1 for w in config.patterns):
        raise ValueError(
            "attention is causal or dilated, which transformers' Longformer cannot "
            "compute; keep this model here"
        )
    repeats = config.num_layers // len(config.patterns)
    # One side -> both sides together.
    windows = [2 * window.radius for window in config.patterns] * repeats
    return {**roberta.values_to(config), "attention_window": windows}


EXCHANGE = exchange_of(
    LongformerConfig,
    EncoderFamily(
        "Longformer",
        # allenai's own checkpoints keep the name of what they were made of.
        ("longformer.", "roberta."),
        roberta.MLM,
        defaults={**roberta.PAD, "attention_window": 512},
        rules={
            "pad_token_id": whole(),
            "attention_window": either(whole(2), listed(whole(2))),
        },
        fields_from=fields_from,
        values_to=values_to,
    ),
    tokenizer_class="RobertaTokenizer",
)
