"""BERT or RoBERTa as a Longformer or a BigBird, or one of these made longer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.conversion.config_rules import raise_all
from etc_jax.conversion.families import bert, encoder
from etc_jax.conversion.families.encoder_family import facts_of
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.surgery.extend_parts import (
    WINDOW,
    Extended,
    Extension,
    common_fields,
    fully_seen,
    largest_difference,
    length_of,
    positions_of,
    rows_fn,
)
from etc_jax.models.encoder.config import (
    BigBirdConfig,
    EncoderConfig,
    LongformerConfig,
    RobertaConfig,
)

_CLASSES = {"longformer": LongformerConfig, "big_bird": BigBirdConfig}


def extend(
    params: Mapping[str, Any], config: EncoderConfig, asked: Extension
) -> Extended:
    """A Longformer or a BigBird; see `extend.extend`.

    Raises:
      ValueError: if a head of the source has no place in it, the window is none, or
        no table limits the source's positions.
    """
    if config.positions != "learnt":
        raise ValueError(
            f"the source has positions {config.positions!r}, which no table limits; "
            "set model.max_length of a run that starts from it"
        )
    target = _config(config, asked)
    _check_heads(params, config, target)
    left_behind = ()
    if isinstance(target, LongformerConfig) and "next_sentence" in params:
        left_behind = ("next_sentence",)
    params = {k: x for k, x in params.items() if k not in left_behind}
    weights = _weights(params, config, target, asked)
    values = {"architectures": [encoder.head_of(params)]}
    model = encoder.model_of(values, weights, target)
    extended, _ = encoder.from_common(weights, target, encoder.shapes(model))
    before, after = rows_fn(config, params), rows_fn(target, extended)
    return Extended(
        extended, target, max(_differences(before, after, config, target)), left_behind
    )


def _config(config: EncoderConfig, asked: Extension) -> EncoderConfig:
    if type(config) is _CLASSES[asked.to]:
        target: EncoderConfig = config
    elif asked.to == "longformer":
        # The id of padding is 0 in vocabularies of BERT.
        pad_id = config.pad_id if isinstance(config, RobertaConfig) else 0
        target = LongformerConfig(
            **common_fields(config), pad_id=pad_id, attention_window=(WINDOW,)
        )
    else:
        target = BigBirdConfig(**common_fields(config))
    changes: dict[str, Any] = {"max_length": length_of(config, asked)}
    if asked.window is not None:
        changes |= {"attention_window": (asked.window,), "attention_dilation": ()}
    for name in ("block_size", "num_globals"):
        if (value := getattr(asked, name)) is not None:
            changes[name] = value
    target = dataclasses.replace(target, **changes)
    raise_all("the long model", map(" ".join, target.problems()))
    return target


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
) -> dict[str, np.ndarray]:
    """Of the long model, by the names of `conversion.families.bert`."""
    old, new = (f"{facts_of(family_of(c)).pooler}." for c in (config, target))
    weights = {
        new + name.removeprefix(old) if name.startswith(old) else name: array
        for name, array in encoder.to_common(params, config).items()
    }
    offset = target.position_offset
    weights[bert.POSITIONS] = positions_of(
        weights[bert.POSITIONS], config, offset, asked
    )
    if isinstance(target, LongformerConfig):
        weights |= _global_projections(weights, again=asked.copy_global)
    return weights


def _global_projections(weights, *, again: bool) -> dict[str, np.ndarray]:
    """Copies of the local ones where there are none, or for all."""
    out = {}
    for name, array in weights.items():
        for kind in ("query", "key", "value"):
            of_global = name.replace(f".self.{kind}.", f".self.{kind}_global.")
            if of_global != name and (again or of_global not in weights):
                out[of_global] = array
    return out


def _differences(before, after, config: EncoderConfig, target: EncoderConfig):
    window = fully_seen(config, target)
    yield largest_difference(before, after, config, window)
    become = isinstance(target, LongformerConfig)
    if become and not isinstance(config, LongformerConfig):
        # Projections of global tokens are those of the others now.
        inputs = {"global_index": np.zeros((2, 1), np.int32)}
        yield largest_difference(before, after, config, window, inputs)
