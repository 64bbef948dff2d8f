"""BART as a BART-LS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.conversion.engine import flatten, import_params, unflatten
from etc_jax.conversion.renaming import Renamed
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.extension import rows_fn
from etc_jax.models.extension import (
    Extended,
    Extension,
    Target,
    common_fields,
    largest_difference,
    length_of,
    positions_of,
)

# Layers of the released BART-LS that attend to averages, and what is new in them.
POOLING_LAYERS = 4
_POOL = r".*/attention/pool/.*"


def extend(params: Mapping[str, Any], config: BartConfig, asked: Extension) -> Extended:
    """As the released model: four layers with averages, which begin at random.

    All but one are so at most, unless the number is asked for.
    """
    fields = common_fields(config, BartConfig)
    pooling = asked.pooling_layers
    if pooling is None:
        pooling = min(POOLING_LAYERS, config.num_layers - 1)
    fields |= {
        "max_length": length_of(config, asked),
        "max_target_length": config.max_target_length,
        "pooling_layers": pooling,
        "num_globals": asked.num_globals or 0,
        "overlap": asked.overlap,
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
    before, after = rows_fn(config, params), rows_fn(target, unflatten(none))
    difference = largest_difference(before, after, config, target.block_size - 1)
    return Extended(unflatten(flat), target, difference, ())


def _xavier(rng: np.random.Generator, shape: tuple[int, ...], width: int) -> np.ndarray:
    """Of kernels, all `width` to `width`, with a gain of 1 / sqrt(2); biases are 0."""
    # [layers, ...] of stacked layers: a bias has less than a matrix of them.
    if math.prod(shape[1:]) < width * width:
        return np.zeros(shape, np.float32)
    most = (3 / width / 2) ** 0.5
    return rng.uniform(-most, most, shape).astype(np.float32)


EXTENSION = Target(
    (BartConfig,), extend, ("block_size", "num_globals", "overlap", "pooling_layers")
)
