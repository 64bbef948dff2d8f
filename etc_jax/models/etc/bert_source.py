"""A BERT or RoBERTa of Hugging Face as what an ETC begins with."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base.rules import MOST, choice, shown, whole
from etc_jax.conversion.config_rules import EPSILON, problems, raise_all
from etc_jax.conversion.engine import TRANSPOSE, Row, compose, split_first, split_last
from etc_jax.conversion.formats.config_file import read_hf_config
from etc_jax.conversion.formats.weight_files import open_weights
from etc_jax.conversion.torch_rows import ACTIVATIONS, linear, norm
from etc_jax.models.encoder.weight_names import BertWeights


@dataclasses.dataclass(frozen=True)
class BertSizes:
    """Sizes and choices of a BERT or RoBERTa.

    Attributes:
      family: "bert" or "roberta".
      vocab_size: rows of the token table.
      embed_dim, num_layers, num_heads, mlp_dim: as in our models.
      num_types: rows of the token-type table.
      num_positions: rows of the position table that tokens use.
      position_offset: row of position 0; the rows before it are RoBERTa's padding.
      activation: a name of `layers.common.ACTIVATIONS`.
      layer_norm_epsilon: added to variances.
    """

    family: str
    vocab_size: int
    embed_dim: int
    num_layers: int
    num_heads: int
    mlp_dim: int
    num_types: int
    num_positions: int
    position_offset: int
    activation: str
    layer_norm_epsilon: float


_LIFTED = ("bert", "roberta")
_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "embed_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "mlp_dim",
    "type_vocab_size": "num_types",
    "max_position_embeddings": "num_positions",
}


def config_from_hf(values: Mapping[str, Any]) -> BertSizes:
    """Reads the dict of a `config.json`.

    Raises:
      ValueError: naming every key that is missing, or says what cannot be lifted.
    """
    raise_all("config of BERT or RoBERTa", _config_problems(values))
    sizes = {ours: values[theirs] for theirs, ours in _SIZES.items()}
    offset = 0
    if values["model_type"] == "roberta":
        # Positions are counted from the id of padding, which is the table's own pad.
        offset = values["pad_token_id"] + 1
    return BertSizes(
        family=values["model_type"],
        **{**sizes, "num_positions": sizes["num_positions"] - offset},
        position_offset=offset,
        activation=ACTIVATIONS[values["hidden_act"]],
        layer_norm_epsilon=float(values["layer_norm_eps"]),
    )


_RULES = {
    **{key: whole(1) for key in _SIZES},
    "num_hidden_layers": whole(1, MOST),
    "num_attention_heads": whole(1, MOST),
    "hidden_act": choice(ACTIVATIONS),
    "layer_norm_eps": EPSILON,
}


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    family = values.get("model_type")
    if problem := choice(_LIFTED).problem(family):
        yield f"model_type {problem}"
    rules = _RULES | ({"pad_token_id": whole()} if family == "roberta" else {})
    # Each is needed: what is not there is None.
    yield from problems({key: values.get(key) for key in rules}, rules)
    for key, expected in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        if values.get(key, expected) != expected:
            yield f"{key} is {shown(values[key])}; only {expected!r} has a counterpart"


class BertCheckpoint(NamedTuple):
    """A checkpoint of Hugging Face."""

    config: BertSizes
    weights: BertWeights


def read_config(folder: str | os.PathLike) -> BertSizes:
    """The config of a folder.

    Raises:
      ValueError: if there is none, or it is of another kind of model.
    """
    return read_hf_config(folder, config_from_hf)


def open_checkpoint(folder: str | os.PathLike) -> BertCheckpoint:
    """Config and weights of a folder; arrays are read when they are asked for.

    Raises:
      ValueError: if something is missing, damaged or of another kind of model.
    """
    config = read_config(folder)
    return BertCheckpoint(config, BertWeights(open_weights(folder), config.family))


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
