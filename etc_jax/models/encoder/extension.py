"""Encoders of one sequence made long, what their families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from etc_jax.conversion.config_rules import raise_all
from etc_jax.conversion.formats.native import family_of
from etc_jax.models.encoder import weight_names, weights as encoder
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.encoder.hf_config import facts_of
from etc_jax.models.extension import (
    Extended,
    Extension,
    RowsFn,
    difference_on_short_inputs,
    positions_of,
)

# Weights by the names of `weight_names`.
Weights = dict[str, np.ndarray]


def extended(
    params: Mapping[str, Any],
    config: EncoderConfig,
    target: EncoderConfig,
    asked: Extension,
    *,
    left_behind: tuple[str, ...] = (),
    more_weights: Callable[[Weights], Weights] = lambda weights: {},
    more_inputs: Mapping[str, np.ndarray] | None = None,
) -> Extended:
    """The weights of an encoder in a longer one.

    Args:
      params: of the source.
      config: of the source.
      target: of the long model.
      asked: see `models.extension.extend`.
      left_behind: heads that have no place in it.
      more_weights: what it has besides, of the weights that it takes over.
      more_inputs: a further input `[2, g]` of the long model, which must not change
        its rows.

    Raises:
      ValueError: if a head of the source has no place in it, the config is wrong, or
        no table limits the source's positions.
    """
    if config.positions != "learnt":
        raise ValueError(
            f"the source has positions {config.positions!r}, which no table limits; "
            "set model.max_length of a run that starts from it"
        )
    raise_all("the long model", map(" ".join, target.problems()))
    _check_heads(params, config, target)
    left_behind = tuple(name for name in left_behind if name in params)
    params = {k: x for k, x in params.items() if k not in left_behind}
    weights = _weights(params, config, target, asked)
    weights |= more_weights(weights)
    values = {"architectures": [encoder.head_of(params)]}
    model = encoder.model_of(values, weights, target)
    new_params, _ = encoder.from_common(weights, target, encoder.shapes(model))
    before, after = rows_fn(config, params), rows_fn(target, new_params)
    models = before, after, config, target
    difference = difference_on_short_inputs(*models, more_inputs)
    return Extended(new_params, target, difference, left_behind)


def rows_fn(config: EncoderConfig, params: Mapping[str, Any]) -> RowsFn:
    """The encoder of a model, without its heads."""
    model = EncoderWithoutHead(config, with_pooler="pooler" in params["encoder"])
    body = {"params": {"encoder": params["encoder"]}}
    return jax.jit(lambda tokens, mask, **more: model.apply(body, tokens, mask, **more))


def _check_heads(params, config: EncoderConfig, target: EncoderConfig) -> None:
    for part, name in (
        ("label_out", "label_activation"),
        ("answer_span", "answer_mlp"),
    ):
        if part in params and getattr(config, name) != getattr(target, name):
            raise ValueError(
                f"the source has the head {part}, which has other layers in a "
                f"{family_of(target)}; give the model from before fine-tuning"
            )


def _weights(
    params, config: EncoderConfig, target: EncoderConfig, asked: Extension
) -> Weights:
    old, new = (f"{facts_of(family_of(c)).pooler}." for c in (config, target))
    weights = {
        new + name.removeprefix(old) if name.startswith(old) else name: array
        for name, array in encoder.to_common(params, config).items()
    }
    name = weight_names.POSITIONS
    weights[name] = positions_of(weights[name], config, target.position_offset, asked)
    return weights
