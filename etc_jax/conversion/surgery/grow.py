"""Encoders with a larger vocabulary: rows for tokens that fine-tuning will learn.

New rows of the token table are drawn as those of a new model are, and begin with a bias
of 0 where there is a head for masked tokens. Old tokens keep their ids and their rows,
so that inputs of them alone give what they gave; that is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.conversion.surgery.extend_parts import (
    check_difference,
    largest_difference,
    rows_fn,
)
from etc_jax.models.encoder_config import EncoderConfig

_TABLE = "encoder/embeddings/token_embedder/embedding"
_BIAS = "mlm_bias"


class Grown(NamedTuple):
    """A model with more tokens.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model.
      difference: the largest one of the rows of short inputs, of source and result.
    """

    params: dict[str, Any]
    config: EncoderConfig
    difference: float


def grow(
    params: Mapping[str, Any], config: EncoderConfig, number: int, *, seed: int = 0
) -> Grown:
    """The model with more tokens after those that it has.

    Args:
      params: of a model of `models.encoder` or one of the modules of its heads.
      config: of that model.
      number: of new tokens.
      seed: of their rows, drawn from N(0, initializer_range).

    Raises:
      ValueError: if the result differs from the source on tokens of the source.
    """
    flat = {path: np.asarray(leaf) for path, leaf in flatten(params).items()}
    table = flat[_TABLE]
    rng = np.random.default_rng(seed)
    new = rng.normal(0, config.initializer_range, (number, table.shape[1]))
    flat[_TABLE] = np.concatenate([table, new.astype(table.dtype)])
    if _BIAS in flat:
        flat[_BIAS] = np.pad(flat[_BIAS], (0, number))
    made = unflatten(flat)
    target = dataclasses.replace(config, vocab_size=config.vocab_size + number)
    before, after = (
        rows_fn(dataclasses.replace(c, dtype="float32"), p)
        for c, p in ((config, params), (target, made))
    )
    difference = largest_difference(before, after, config)
    check_difference(difference, "the model and the one with more tokens")
    return Grown(made, target, difference)
