"""BERT or RoBERTa as a Longformer, or a Longformer made longer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.extension import Weights, extended
from etc_jax.models.extension import (
    WINDOW,
    Extended,
    Extension,
    Target,
    common_fields,
    length_of,
)
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig


def extend(
    params: Mapping[str, Any], config: EncoderConfig, asked: Extension
) -> Extended:
    """A Longformer; see `Target`."""
    is_new, target = type(config) is not LongformerConfig, config
    if is_new:
        # The id of padding is 0 in vocabularies of BERT.
        pad_id = getattr(config, "pad_id", 0)
        target = LongformerConfig(
            **common_fields(config), pad_id=pad_id, attention_window=(WINDOW,)
        )
    target = dataclasses.replace(target, max_length=length_of(config, asked))
    if asked.window is not None:
        window = {"attention_window": (asked.window,), "attention_dilation": ()}
        target = dataclasses.replace(target, **window)
    # Projections of global tokens are those of the others at first.
    first_is_global = {"global_index": np.zeros((2, 1), np.int32)}
    return extended(
        *(params, config, target, asked),
        left_behind=("next_sentence",),
        more_weights=lambda x: _global_projections(x, again=asked.copy_global),
        more_inputs=first_is_global if is_new else None,
    )


def _global_projections(weights: Weights, *, again: bool) -> Weights:
    """Copies of the local ones where there are none, or for all."""
    out = {}
    for name, array in weights.items():
        for kind in ("query", "key", "value"):
            of_global = name.replace(f".self.{kind}.", f".self.{kind}_global.")
            if of_global != name and (again or of_global not in weights):
                out[of_global] = array
    return out


EXTENSION = Target(
    (BertConfig, RobertaConfig, LongformerConfig), extend, ("window", "copy_global")
)
