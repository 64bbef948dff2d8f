"""A BERT or RoBERTa of Hugging Face as what an ETC begins with."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from etc_jax.base.rules import choice
from etc_jax.conversion.engine import TRANSPOSE, Row, compose, split_first, split_last
from etc_jax.conversion.formats.config_file import read_hf_config
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.formats.weight_files import open_weights
from etc_jax.conversion.torch_rows import linear, norm
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.hf_config import config_from_hf
from etc_jax.models.encoder.weight_names import BertWeights

_LIFTED = ("bert", "roberta")


class BertCheckpoint(NamedTuple):
    """A checkpoint of Hugging Face."""

    config: EncoderConfig
    weights: BertWeights


def read_config(folder: str | os.PathLike) -> EncoderConfig:
    """The config of a folder.

    Raises:
      ValueError: if there is none, or it is of another kind of model.
    """
    return read_hf_config(folder, _config)


def _config(values: Mapping[str, Any]) -> EncoderConfig:
    if problem := choice(_LIFTED).problem(values.get("model_type")):
        raise ValueError(f"model_type {problem}")
    return config_from_hf(values)


def open_checkpoint(folder: str | os.PathLike) -> BertCheckpoint:
    """Config and weights of a folder; arrays are read when they are asked for.

    Raises:
      ValueError: if something is missing, damaged or of another kind of model.
    """
    config = read_config(folder)
    return BertCheckpoint(config, BertWeights(open_weights(folder), family_of(config)))


def lifting_names(num_heads: int, *, scan_layers: bool, target: str) -> tuple[Row, ...]:
    """Rows of what an ETC takes from BERT as it is (paper, section 3.6 and app. D).

    Every copy of a projection, norm or feed-forward block that ETC has comes from the
    one that BERT has. The tables of tokens, types and positions, whose rows may differ
    in number, are not among them; nor is the bias over the vocabulary.

    Args:
      num_heads: of every projection.
      scan_layers: whether the layers of the ETC are stacked.
      target: what stands before the encoder's paths, as "encoder/".
    """
    split = split_last(num_heads)
    projection = (compose(TRANSPOSE, split), split)
    layer = "layers" if scan_layers else "layers_{layer}"
    ours = f"{target}stack/{layer}/layer/"
    attention = f"{ours}attention/"
    bert = "encoder.layer.{layer}."
    out = compose(TRANSPOSE, split_first(num_heads))
    rows: list[Row] = []
    for piece in ("l2l", "l2g", "g2g", "g2l"):
        for kind in ("key", "value"):
            theirs = f"{bert}attention.self.{kind}"
            rows += linear(theirs, f"{attention}{piece}_{kind}", *projection)
    for side in ("long", "global"):
        theirs = f"{bert}attention.self.query"
        rows += linear(theirs, f"{attention}{side}_query", *projection)
        rows += linear(f"{bert}attention.output.dense", f"{attention}{side}_out", out)
        rows += norm(
            f"{bert}attention.output.LayerNorm", f"{ours}{side}_attention_norm"
        )
        rows += norm("embeddings.LayerNorm", f"{target}embeddings/{side}_embed_norm")
    for side in ("", "long_", "global_"):
        mlp = f"{ours}{side}mlp"
        rows += linear(f"{bert}intermediate.dense", f"{mlp}/wi", TRANSPOSE)
        rows += linear(f"{bert}output.dense", f"{mlp}/wo", TRANSPOSE)
        rows += norm(f"{bert}output.LayerNorm", f"{mlp}_norm")
    rows += linear("mlm.dense", "mlm_dense", TRANSPOSE)
    rows += norm("mlm.norm", "mlm_norm")
    return tuple(rows)
