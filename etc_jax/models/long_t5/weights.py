"""LongT5 as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.base.rules import choice, whole
from etc_jax.models.encoder_decoder.hf_config import SIZE, Key, Keys
from etc_jax.models.encoder_decoder.weights import exchange_of
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.t5 import weights as t5

_ATTENTIONS = {"local": "local", "transient-global": "transient_global"}


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `Keys`."""
    kind = _ATTENTIONS[values["encoder_attention_type"]]
    return {**t5.fields_from(values), "encoder_attention": kind}


def values_to(config: LongT5Config) -> dict[str, Any]:
    """See `Keys`."""
    theirs = {ours: name for name, ours in _ATTENTIONS.items()}
    kind = theirs[config.encoder_attention]
    return {**t5.values_to(config), "encoder_attention_type": kind}


EXCHANGE = exchange_of(
    LongT5Config,
    Keys(
        {
            **t5.KEYS,
            "n_positions": Key(SIZE, LongT5Config.max_length, "max_length"),
            "local_radius": Key(whole(), 127, "radius"),
            "global_block_size": Key(SIZE, 16, "block_size"),
            "encoder_attention_type": Key(choice(_ATTENTIONS), "local"),
        },
        t5.ONLY,
        {**t5.WRITTEN, "bos_token_id": None},
        "LongT5",
        fields_from,
        values_to,
        layers="block",
        counts=t5.COUNTS,
    ),
    refined=t5.refined,
    model_type="longt5",
    # transformers asks such a folder to name its class.
    tokenizer_class="T5Tokenizer",
)
