"""A ModernBERT for longer texts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from etc_jax.conversion.config_rules import raise_all
from etc_jax.models.encoder.extension import rows_fn
from etc_jax.models.extension import (
    Extended,
    Extension,
    Target,
    difference_on_short_inputs,
    length_of,
)
from modern_bert.config import ModernBertConfig


def extend(
    params: Mapping[str, Any], config: ModernBertConfig, asked: Extension
) -> Extended:
    """See `Target`: the same parameters, as rotations go on at any length."""
    changes = {"max_length": length_of(config, asked)}
    if asked.window is not None:
        changes["local_window"] = asked.window
    target = dataclasses.replace(config, **changes)
    raise_all("the long model", map(" ".join, target.problems()))
    rows = (rows_fn(c, params) for c in (config, target))
    difference = difference_on_short_inputs(*rows, config, target)
    return Extended(dict(params), target, difference, ())


EXTENSION = Target((ModernBertConfig,), extend, ("window",))
