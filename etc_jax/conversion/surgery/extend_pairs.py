"""BART as a LED or a BART-LS, or a LED made longer; T5 as a LongT5."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from etc_jax.conversion.engine import flatten, import_params, unflatten
from etc_jax.conversion.families import encoder_decoder
from etc_jax.conversion.renaming import Renamed
from etc_jax.conversion.surgery.extend_parts import (
    Extended,
    Extension,
    RowsFn,
    common_fields,
    fully_seen,
    largest_difference,
    length_of,
    positions_of,
)
from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    LongT5Config,
)
from etc_jax.models.sled.bart_ls_config import BartLsConfig

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
# Layers of the released BART-LS that attend to averages, and what is new in them.
POOLING_LAYERS = 4
_POOL = r".*/attention/pool/.*"
_T5 = re.compile(r"(encoder\.block\.\d+\.layer\.0\.)SelfAttention\.(.*)")


def extend(
    params: Mapping[str, Any], config: EncoderDecoderConfig, asked: Extension
) -> Extended:
    """A LED, a LongT5 or a BART-LS; see `extend.extend`.

    Raises:
      ValueError: if the result does not fit what is asked for.
    """
    if asked.to == "bart_ls":
        return _to_bart_ls(params, config, asked)
    make = _to_led if asked.to == "led" else _to_long_t5
    target, weights = make(encoder_decoder.export_hf(params, config), config, asked)
    refuse(target)
    shapes = encoder_decoder.shapes(target)
    extended, _ = encoder_decoder.import_hf(weights, target, shapes)
    before, after = _rows_fn(config, params), _rows_fn(target, extended)
    differences = _differences(before, after, config, target)
    return Extended(extended, target, max(differences), ())


def _to_led(weights, config, asked: Extension):
    """(config, weights by transformers' names) of a LED."""
    fields = {"attention_window": (WINDOW,), **common_fields(config, type(config))}
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
    return LedConfig(**fields), long


def _led_name(name: str) -> str:
    """Of a LED, by the name that BART has, or LED already."""
    name = re.sub(r"^model\.", "led.", name)
    return _ATTENTION.sub(lambda match: f"{match[1]}{_TO_LED[match[2]]}", name)


def _to_long_t5(weights, config, asked: Extension):
    """(config, weights by transformers' names) of a LongT5 with sums of blocks."""
    fields = common_fields(config, type(config))
    fields["max_length"] = length_of(config, asked)
    if asked.window is not None:
        fields["radius"] = asked.window // 2
    if asked.block_size is not None:
        fields["block_size"] = asked.block_size
    long = {_T5.sub(_long_t5_name, name): x for name, x in weights.items()}
    for name, array in list(long.items()):
        start, key, _ = name.partition("TransientGlobalSelfAttention.")
        if name.endswith(f"{key}q.weight") and key:
            long[f"{start}{key}global_input_layer_norm.weight"] = np.ones(
                config.embed_dim, array.dtype
            )
        if key and name.endswith("relative_attention_bias.weight"):
            # Blocks begin as tokens at as many places.
            long[f"{start}{key}global_relative_attention_bias.weight"] = array
    return LongT5Config(**fields), long


def _long_t5_name(match: re.Match) -> str:
    return f"{match[1]}TransientGlobalSelfAttention.{match[2]}"


def _to_bart_ls(params, config: BartConfig, asked: Extension) -> Extended:
    """Of the released model: four layers with averages, which begin at random."""
    fields = common_fields(config, BartConfig)
    fields |= {
        "max_length": length_of(config, asked),
        "max_target_length": config.max_target_length,
        "pooling_layers": min(POOLING_LAYERS, config.num_layers - 1),
    }
    if asked.block_size is not None:
        fields["block_size"] = asked.block_size
    target = BartLsConfig(**fields)
    refuse(target)
    weights = encoder_decoder.export_named(params, config)
    table = "encoder.embed_positions.weight"
    offset = target.position_offset
    weights[table] = positions_of(weights[table], config, offset, asked)
    split = encoder_decoder.runs_of(target).split
    shapes = encoder_decoder.shapes(target)
    imported, report = import_params(
        encoder_decoder.names(target),
        Renamed(weights, split),
        shapes,
        allow_missing=(_POOL,),
    )
    abstract, flat = flatten(shapes), flatten(imported)
    rng = np.random.default_rng(asked.seed)
    for name in report.missing:
        flat[name] = _xavier(rng, abstract[name].shape, target.embed_dim)
    # Without the averages it is the source, in one block.
    none = {n: 0 * x if re.fullmatch(_POOL, n) else x for n, x in flat.items()}
    before, after = _rows_fn(config, params), _rows_fn(target, unflatten(none))
    difference = largest_difference(before, after, config, target.block_size - 1)
    return Extended(unflatten(flat), target, difference, ())


def _xavier(rng: np.random.Generator, shape: tuple[int, ...], width: int) -> np.ndarray:
    """Of kernels, all `width` to `width`, with a gain of 1 / sqrt(2); biases are 0."""
    # [layers, ...] of stacked layers: a bias has less than a matrix of them.
    if math.prod(shape[1:]) < width * width:
        return np.zeros(shape, np.float32)
    most = (3 / width / 2) ** 0.5
    return rng.uniform(-most, most, shape).astype(np.float32)


def _rows_fn(config: EncoderDecoderConfig, params: Mapping[str, Any]) -> RowsFn:
    """The encoder of a model."""
    model, variables = EncoderDecoder(config), {"params": params}

    def rows(tokens, mask, **more):
        return model.apply(variables, tokens, mask, **more, method="encode").rows

    return jax.jit(rows)


def _differences(before, after, config, target) -> Iterator[float]:
    window = fully_seen(config, target)
    yield largest_difference(before, after, config, window)
    if isinstance(target, LedConfig) and not isinstance(config, LedConfig):
        # Projections of global tokens are those of the others now.
        inputs = {"global_index": np.zeros((2, 1), np.int32)}
        yield largest_difference(before, after, config, window, inputs)
