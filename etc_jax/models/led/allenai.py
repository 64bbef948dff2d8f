"""LED as allenai's own code saves it (`longformer-encdecoder-base-16384` and its kind).

Its config is BART's with the keys of Longformer, whose windows count one side. Tables
of positions keep BART's two rows before that of position 0, which nothing reads.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from etc_jax.base import registry
from etc_jax.base.rules import (
    LARGEST,
    NOTHING,
    choice,
    either,
    flag,
    listed,
    shown,
    whole,
)
from etc_jax.conversion.config_rules import RATE, problems, raise_all
from etc_jax.conversion.engine import Report
from etc_jax.conversion.exchange import Exchange
from etc_jax.conversion.renaming import Renamed
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.hf_config import config_from_hf
from etc_jax.models.led.config import LedConfig

CLASS = "LongformerEncoderDecoderForConditionalGeneration"
# Names of both modes are of one function; "n2" is another one.
_MODES = ("tvm", "sliding_chunks")
# Attention dropout of the encoder, which reads another key than the decoder.
_ENCODER_RATE = "attention_probs_dropout_prob"
_RULES = {
    "attention_mode": choice(_MODES),
    "attention_window": listed(whole(1, LARGEST // 2)),
    "attention_dilation": either(NOTHING, listed(whole(1))),
    "autoregressive": flag(),
    _ENCODER_RATE: RATE,
}
_POSITIONS = re.compile(r"model\.(en|de)coder\.embed_positions\.weight")


def config_from(values: Mapping[str, Any]) -> LedConfig:
    """Reads the dict of a `config.json`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    raise_all("config of allenai's LED", _config_problems(values))
    both_sides = [2 * width for width in values["attention_window"]]
    config = config_from_hf(
        {
            **values,
            "model_type": "led",
            "architectures": None,
            "attention_window": both_sides,
        }
    )
    rate = values.get(_ENCODER_RATE, config.attention_dropout_rate)
    if rate == config.attention_dropout_rate:
        return config
    return dataclasses.replace(config, encoder_attention_dropout_rate=rate)


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    for key in ("attention_mode", "attention_window"):
        if key not in values:
            yield f"{key} is not there; expected {_RULES[key].expected}"
    if wrong := list(problems(values, _RULES)):
        yield from wrong
        return
    if set(values.get("attention_dilation") or ()) - {1}:
        yield (
            f"attention_dilation is {shown(values['attention_dilation'])}; only 1 in "
            "all layers has a counterpart"
        )
    if values.get("autoregressive"):
        yield "autoregressive is True; only False has a counterpart"


def _weights(source: Mapping[str, np.ndarray]) -> Renamed:
    """The weights as transformers has them: no rows before position 0."""
    unread = BartConfig.position_offset
    weights = {
        name: array[unread:] if _POSITIONS.fullmatch(name) else array
        for name, array in source.items()
    }
    return Renamed(
        weights,
        lambda name: re.sub(r"^model\.", "led.", name),
        lambda name: re.sub(r"^led\.", "model.", name),
    )


def read(
    values: Mapping[str, Any], source: Mapping[str, np.ndarray], config: LedConfig
) -> tuple[dict[str, Any], Report]:
    """All that a checkpoint has, of shapes as there; see `exchange.Exchange`."""
    return encoder_decoder.read_hf(values, _weights(source), config)


# What is written is the layout of transformers, that of "led".
registry.register("hugging_face_class", CLASS)(
    Exchange(
        LedConfig,
        config_from,
        read,
        encoder_decoder.export_hf,
        encoder_decoder.values_to_hf,
    )
)
