"""BERT or RoBERTa as a BigBird, or a BigBird made longer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.extension import extended
from etc_jax.models.extension import (
    Extended,
    Extension,
    Target,
    common_fields,
    length_of,
)
from etc_jax.models.roberta.config import RobertaConfig

_OPTIONS = ("block_size", "num_globals")


def extend(
    params: Mapping[str, Any], config: EncoderConfig, asked: Extension
) -> Extended:
    """A BigBird; see `Target`."""
    target = config
    if type(config) is not BigBirdConfig:
        target = BigBirdConfig(**common_fields(config))
    changes = {name: getattr(asked, name) for name in _OPTIONS}
    changes = {name: value for name, value in changes.items() if value is not None}
    length = length_of(config, asked)
    target = dataclasses.replace(target, max_length=length, **changes)
    return extended(params, config, target, asked)


EXTENSION = Target((BertConfig, RobertaConfig, BigBirdConfig), extend, _OPTIONS)
