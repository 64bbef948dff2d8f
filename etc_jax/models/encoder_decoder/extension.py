"""Encoder-decoders made long, what their families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from etc_jax.models.config_problems import refuse
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.extension import (
    Extended,
    RowsFn,
    difference_on_short_inputs,
)


def extended(
    params: Mapping[str, Any],
    config: EncoderDecoderConfig,
    target: EncoderDecoderConfig,
    weights: Mapping[str, np.ndarray],
    *,
    more_inputs: Mapping[str, np.ndarray] | None = None,
) -> Extended:
    """The long model of some weights.

    Args:
      params: of the source.
      config: of the source.
      target: of the long model.
      weights: of the long model, by the names of transformers.
      more_inputs: a further input `[2, g]` of the long model, which must not change
        its rows.

    Raises:
      ValueError: if the config is wrong, or weights do not fit it.
    """
    refuse(target)
    shapes = encoder_decoder.shapes(target)
    new_params, _ = encoder_decoder.import_hf(weights, target, shapes)
    before, after = rows_fn(config, params), rows_fn(target, new_params)
    models = before, after, config, target
    difference = difference_on_short_inputs(*models, more_inputs)
    return Extended(new_params, target, difference, ())


def rows_fn(config: EncoderDecoderConfig, params: Mapping[str, Any]) -> RowsFn:
    """The encoder of a model."""
    model, variables = EncoderDecoder(config), {"params": params}

    def rows(tokens, mask, **more):
        return model.apply(variables, tokens, mask, **more, method="encode").rows

    return jax.jit(rows)
