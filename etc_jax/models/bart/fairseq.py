"""BART and BART-LS as fairseq saves them.

Sizes come from the shapes, so that a table with or without a row for `<mask>` is read
as it is; what shapes do not show comes from the settings in the file.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base.rules import MOST, choice, flag, whole
from etc_jax.conversion.config_rules import RATE, layers_in, problems, raise_all
from etc_jax.conversion.engine import Report
from etc_jax.conversion.formats import fairseq_file
from etc_jax.conversion.formats.fairseq_layout import UsualLayout
from etc_jax.conversion.renaming import Renamed
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder

# fairseq's name -> the one here.
_ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_accurate": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Settings that shapes do not show: fairseq saves all of them.
_NEEDED = {
    "encoder_attention_heads": whole(1, MOST),
    "decoder_attention_heads": whole(1, MOST),
    "activation_fn": choice(_ACTIVATIONS),
    "no_scale_embedding": flag(),
    "encoder_normalize_before": flag(),
    "decoder_normalize_before": flag(),
}
# Those of dropout -> fields.
_RATES = {
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
}
# fairseq's name -> the one of transformers.
_NAMES = {
    "decoder.embed_tokens.weight": "shared.weight",
    "decoder.output_projection.weight": "lm_head.weight",
}
# Numbers of versions, and heads of classification, which have no counterpart.
_BESIDE = re.compile(r"(en|de)coder\.version|.*\._float_tensor")
_HEAD = re.compile(r"classification_heads\..*")
_POOLING = ".pool_attn.q_proj.weight"


class FairseqModel(NamedTuple):
    """A model of fairseq.

    Attributes:
      params: of `EncoderDecoder`; rows of the token table are as in the file.
      config: of the model.
      report: its `unused` has the weights of classification heads.
      masks: whether its task adds `<mask>` to the vocabulary; None: it is not known.
    """

    params: dict[str, Any]
    config: BartConfig
    report: Report
    masks: bool | None

    @property
    def has_sentinels(self) -> bool:
        """Whether rows after that of `<mask>` are sentinels."""
        return isinstance(self.config, BartLsConfig)


def read(path: str | os.PathLike) -> FairseqModel:
    """The model of a checkpoint of fairseq.

    Args:
      path: of the file, such as `bart.large/model.pt`.

    Raises:
      ConversionError, ValueError: naming everything that does not fit.
    """
    settings, weights = fairseq_file.read(path)
    try:
        weights, heads = renamed(weights)
        config = config_from(settings, weights)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    params, report = import_weights(weights, config)
    report = dataclasses.replace(report, unused=heads)
    return FairseqModel(params, config, report, masks(settings))


def with_rows_swapped(params: dict[str, Any], row: int, other: int) -> dict[str, Any]:
    """Parameters with two rows of the token table in each other's place."""
    embedder = dict(params["token_embedder"])
    table = embedder["embedding"].copy()
    table[[row, other]] = table[[other, row]]
    return {**params, "token_embedder": {**embedder, "embedding": table}}


# Tasks that add `<mask>` to the vocabulary, and the beginning of those that do not.
_MASKING = (
    *("denoising", "multilingual_denoising", "masked_lm", "multilingual_masked_lm"),
    *("sentence_prediction", "sentence_ranking"),
)
_WRITING = "translation"


def masks(settings: Mapping[str, Any]) -> bool | None:
    """Whether the task of some settings adds `<mask>`; None: it is not known."""
    task = str(settings.get("task", ""))
    # Of denoising: the share of words that is masked.
    if task in _MASKING or "mask" in settings:
        return True
    return False if task.startswith(_WRITING) else None


def import_weights(
    weights: Renamed, config: BartConfig
) -> tuple[dict[str, Any], Report]:
    """Parameters of weights by the names of `renamed`."""
    runs = encoder_decoder.runs_of(config)
    weights = Renamed(weights, runs.split, runs.join)
    abstract = encoder_decoder.shapes(config)
    return encoder_decoder.import_named(weights, config, abstract)


def renamed(source: Mapping[str, Any]) -> tuple[Renamed, tuple[str, ...]]:
    """(weights by the names of transformers, names of classification heads).

    Raises:
      ValueError: if the token table is there twice, and not equal.
    """
    heads = tuple(name for name in source if _HEAD.fullmatch(name))

    def rename(name: str) -> str | None:
        if _HEAD.fullmatch(name) or _BESIDE.fullmatch(name):
            return None
        return _NAMES.get(name, name)

    originals = {ours: theirs for theirs, ours in _NAMES.items()}
    weights = Renamed(
        UsualLayout(source), rename, lambda name: originals.get(name, name)
    )
    return encoder_decoder.untied(weights, BartConfig()), heads


def config_from(settings: Mapping[str, Any], weights: Renamed) -> BartConfig:
    """The config of a checkpoint.

    Args:
      settings: of the model, by fairseq's names.
      weights: by the names of transformers.

    Raises:
      ValueError: naming every setting that is missing or has no counterpart.
    """
    raise_all(
        "BART of fairseq", [*_setting_problems(settings), *_shape_problems(weights)]
    )
    more = {field: settings[key] for key, field in _RATES.items() if key in settings}
    # Layers with averages make it a BART-LS.
    pooling = sum(name.endswith(_POOLING) for name in weights)
    lengths = {side: _positions(weights, side) for side in ("encoder", "decoder")}
    kind = BartConfig
    if pooling:
        kind = BartLsConfig
        more |= {"pooling_layers": pooling, "max_target_length": lengths["decoder"]}
    config = kind(
        **{field: weights.size(*axis) for field, axis in _SIZES.items()},
        num_layers=layers_in(weights, "encoder.layers"),
        num_decoder_layers=layers_in(weights, "decoder.layers"),
        max_length=lengths["encoder"],
        num_heads=settings["encoder_attention_heads"],
        num_decoder_heads=settings["decoder_attention_heads"],
        activation=_ACTIVATIONS[settings["activation_fn"]],
        scale_embedding=not settings["no_scale_embedding"],
        pre_norm=settings["encoder_normalize_before"],
        embed_norm="encoder.layernorm_embedding.weight" in weights,
        final_norm="encoder.layer_norm.weight" in weights,
        **more,
    )
    raise_all("BART of fairseq", map(" ".join, config.problems()))
    return config


# Field -> (weight, axis) that has its size.
_SIZES = {
    "vocab_size": ("shared.weight", 0),
    "embed_dim": ("shared.weight", 1),
    "mlp_dim": ("encoder.layers.0.fc1.weight", 0),
    "decoder_mlp_dim": ("decoder.layers.0.fc1.weight", 0),
}


def _positions(weights: Renamed, side: str) -> int | None:
    rows = weights.size(f"{side}.embed_positions.weight", 0)
    return None if rows is None else rows - BartConfig.position_offset


def _setting_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    if missing := [key for key in _NEEDED if key not in settings]:
        yield (
            f"its settings lack {', '.join(missing)}, which the shapes of weights do "
            "not show; add them to the dict 'args' of the file, with the values that "
            "the model was trained with"
        )
    yield from problems(settings, {**_NEEDED, **dict.fromkeys(_RATES, RATE)})
    before = [settings.get(f"{s}_normalize_before") for s in ("encoder", "decoder")]
    if before[0] != before[1] and None not in before:
        yield (
            f"encoder_normalize_before is {before[0]} and decoder_normalize_before "
            f"{before[1]}; only the same in both has a counterpart"
        )


def _shape_problems(weights: Renamed) -> Iterator[str]:
    for name, axis in _SIZES.values():
        if weights.size(name, axis) is None:
            name = weights.original(name)
            yield f"there is no weight {name} of {axis + 1} axes or more"
    rows = {side: _positions(weights, side) for side in ("encoder", "decoder")}
    apart = rows["encoder"] != rows["decoder"] and None not in rows.values()
    if apart and not any(name.endswith(_POOLING) for name in weights):
        yield (
            f"the encoder has {rows['encoder']} positions and the decoder "
            f"{rows['decoder']}; only as many in both have a counterpart, but for a "
            "BART-LS, some of whose layers have a pool_attn"
        )
    for side, length in rows.items():
        if (layers := layers_in(weights, f"{side}.layers")) > MOST:
            yield f"there are {layers} layers of the {side}; expected {MOST} at most"
        if length is None:
            yield (
                f"there is no table {side}.embed_positions.weight; only learnt "
                "positions have a counterpart"
            )
