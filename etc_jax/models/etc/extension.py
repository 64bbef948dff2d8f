"""BERT or RoBERTa as an ETC that computes the same on short inputs.

Unlike a lift as in the paper (`lift`) it keeps positions, activation and
epsilon of the source; labels begin at 0, all copies of a projection are one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from etc_jax.conversion.formats.native import family_of
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder import weight_names, weights as encoder
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.extension import rows_fn
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.lift import LiftOptions, lift, lifted_config
from etc_jax.models.extension import (
    WINDOW,
    Extended,
    Extension,
    RowsFn,
    Target,
    common_fields,
    largest_difference,
    length_of,
    positions_of,
)
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.ops import sampling
from etc_jax.structure import Structure

# Types are counted otherwise by BERT and by ETC, whose long tokens have type 1: each
# begins with the row of a lone text.
_OPTIONS = LiftOptions(
    positions="copy", types="first", activation="source", epsilon="source"
)
_HEADS = {"encoder", "mlm_dense", "mlm_norm", "mlm_bias", "next_sentence"}


def extend(
    params: Mapping[str, Any], config: EncoderConfig, asked: Extension
) -> Extended:
    """An ETC with the heads of pre-training; see `Target`.

    Raises:
      ValueError: if the source has another head, or the window is none.
    """
    if foreign := sorted(params.keys() - _HEADS):
        raise ValueError(
            f"the source has the head {', '.join(foreign)}, which pre-training ETC "
            "does not; give the model from before fine-tuning"
        )
    weights = encoder.to_common(params, config)
    name = weight_names.POSITIONS
    weights[name] = positions_of(weights[name], config, 0, asked)
    # With positions made long, which begin at the first row.
    fields = common_fields(config) | {"max_length": length_of(config, asked)}
    source = BertConfig(**fields)
    target = lifted_config(source, _config(config, asked), _OPTIONS)
    fresh = _fresh(target, asked.seed)
    common = weight_names.BertWeights(weights, family_of(config))
    extended, report = lift(common, source, fresh, target, _OPTIONS)
    before, after = rows_fn(config, params), _rows_fn(target, extended)
    # Only the radius limits what is seen.
    difference = largest_difference(before, after, config, target.radius)
    return Extended(extended, target, difference, tuple(report.left_over))


def _config(config: EncoderConfig, asked: Extension) -> EtcConfig:
    window = WINDOW if asked.window is None else asked.window
    if window < 2 or window % 2:
        raise ValueError(
            f"window is {window}; expected an even number, 2 or more, that counts both "
            "sides: twice ETC's radius"
        )
    names = {field.name for field in dataclasses.fields(EtcConfig)} - {"num_types"}
    fields = {k: x for k, x in common_fields(config).items() if k in names}
    return EtcConfig(
        **fields,
        radius=window // 2,
        max_positions=length_of(config, asked),
        share_qkv=True,
        share_out=True,
    )


def _fresh(config: EtcConfig, seed: int) -> Any:
    """Parameters of a new model, labels at 0."""
    model, ids = EtcForPretraining(config), np.ones((1, 1), np.int32)
    one = Structure(ids, ids, np.zeros((1, 1, 1), np.int16))
    init = jax.jit(lambda key: model.init(key, ids, ids, one, ids * 0)["params"])

    def begin(path, leaf):
        is_label = any("_labels" in str(part) for part in path)
        return np.zeros(leaf.shape, leaf.dtype) if is_label else np.asarray(leaf)

    return jax.tree_util.tree_map_with_path(begin, init(sampling.key(seed)))


def _rows_fn(config: EtcConfig, params: Any) -> RowsFn:
    """The long rows of an input without global tokens."""
    model = EtcForPretraining(config)

    @jax.jit
    def rows(tokens, mask):
        none = np.zeros((len(tokens), 0), np.int32)
        structure = Structure(mask, none, np.zeros((*tokens.shape, 0), np.int16))
        inputs = (tokens, none, structure)
        return model.apply({"params": params}, *inputs, method="encode").long

    return rows


EXTENSION = Target((BertConfig, RobertaConfig), extend, ("window",))
