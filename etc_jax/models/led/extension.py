"""BART as a LED, or a LED made longer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.extension import extended
from etc_jax.models.extension import (
    Extended,
    Extension,
    Target,
    common_fields,
    length_of,
    positions_of,
)
from etc_jax.models.led.config import LedConfig

# Of the released LEDs, on both sides together.
WINDOW = 1024
_POSITIONS = "led.{side}.embed_positions.weight"
_ATTENTION = re.compile(r"(?<=encoder\.layers\.)(\d+\.self_attn\.)(\w+_proj)")
# Projections of BART's encoder -> of LED's.
_TO_LED = {
    "q_proj": "longformer_self_attn.query",
    "k_proj": "longformer_self_attn.key",
    "v_proj": "longformer_self_attn.value",
    "out_proj": "output",
}
_OF_GLOBALS = re.compile(r"(.*longformer_self_attn\.(?:query|key|value))(\..*)")


def extend(params: Mapping[str, Any], config: BartConfig, asked: Extension) -> Extended:
    """A LED; see `Target`."""
    fields = {"attention_window": (WINDOW,), **common_fields(config, type(config))}
    weights = encoder_decoder.export_hf(params, config)
    fields |= {
        "max_length": length_of(config, asked),
        "max_target_length": config.max_target_length,
    }
    if asked.window is not None:
        fields["attention_window"] = (asked.window,)
    long = {_led_name(name): array for name, array in weights.items()}
    table = long[_POSITIONS.format(side="encoder")]
    long[_POSITIONS.format(side="encoder")] = positions_of(table, config, 0, asked)
    # Without the rows before position 0.
    side = _POSITIONS.format(side="decoder")
    long[side] = long[side][config.position_offset :]
    for name in list(long):
        if match := _OF_GLOBALS.fullmatch(name):
            of_global = f"{match[1]}_global{match[2]}"
            if asked.copy_global or of_global not in long:
                long[of_global] = long[name]
    # Projections of global tokens are those of the others at first.
    first_is_global = {"global_index": np.zeros((2, 1), np.int32)}
    is_new = type(config) is not LedConfig
    return extended(
        *(params, config, LedConfig(**fields), long),
        more_inputs=first_is_global if is_new else None,
    )


def _led_name(name: str) -> str:
    """Of a LED, by the name that BART has, or LED already."""
    name = re.sub(r"^model\.", "led.", name)
    return _ATTENTION.sub(lambda match: f"{match[1]}{_TO_LED[match[2]]}", name)


EXTENSION = Target((BartConfig, LedConfig), extend, ("window", "copy_global"))
