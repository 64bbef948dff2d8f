"""BART, LED, T5 and LongT5 as Hugging Face writes them, both ways."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.conversion.config_rules import check_sizes, layers_in
from etc_jax.conversion.engine import (
    TRANSPOSE,
    Report,
    Row,
    Transform,
    compose,
    export_params,
    import_params,
    split_first,
    split_last,
)
from etc_jax.conversion.families.bert import linear, norm
from etc_jax.conversion.families.encoder_decoder_config import (
    FAMILIES,
    MT5,
    MT5_IS_T5,
    config_from_hf,
    config_to_hf,
    family_of,
)
from etc_jax.conversion.families.exchange import Exchange
from etc_jax.conversion.renaming import LayerRuns, Renamed, tied
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    T5Config,
)

# transformers keeps a row in front of the vocabulary's.
_FIRST = Transform(lambda x: x.reshape(x.shape[-1:]), lambda x: x[None])
_LOGITS_BIAS = "final_logits_bias"
_LOGITS = "lm_head.weight"
_TABLE = "shared.weight"
# Names of one array, the token table.
_TIED = (_TABLE, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# Old T5s have one in their cross-attention, which nothing reads.
_UNREAD = r"decoder\.block\.0\.layer\.1\..*\.relative_attention_bias\.weight"


def _projections(side: Any) -> tuple[Any, Any, Any]:
    """(of queries, keys and values; of their biases; of the output)."""
    split = split_last(side.num_heads)
    out = compose(TRANSPOSE, split_first(side.num_heads))
    return compose(TRANSPOSE, split), split, out


def _layer(side: str, i: int = 0, stack: str = "stack") -> str:
    return f"{side}/{stack}/layers/period/layer_{i}/"


# Attentions of a layer, by what comes before their weights -> paths here.
_ATTENTIONS = {"self_attn.": "attention", "encoder_attn.": "cross_attention"}
_POOLED = {"self_attn.": "attention/blocks", "pool_attn.": "attention/pool"}


def _bart_names(config: BartConfig) -> tuple[Row, ...]:
    """Rows for all weights, without what stands before those of the body."""
    rows = [
        Row(_TABLE, "token_embedder/embedding"),
        Row(_LOGITS_BIAS, "logits_bias", _FIRST),
    ]
    for side in ("encoder", "decoder"):
        theirs = f"{side}.embed_positions.weight"
        rows.append(Row(theirs, f"{side}/position_embedder/embedding"))
        rows += norm(f"{side}.layernorm_embedding", f"{side}/embed_norm")
        rows += norm(f"{side}.layer_norm", f"{side}/final_norm")
    runs = runs_of(config)
    for i in range(len(config.patterns)):
        rows += _bart_layer(config, runs.source(i), _layer("encoder", i), "encoder")
    if config.encoder_side.top_layers:
        ours = _layer("encoder", stack="top_stack")
        rows += _bart_layer(config, runs.top_source(), ours, "encoder", _POOLED)
    rows += _bart_layer(config, "decoder.layers.{layer}.", _layer("decoder"), "decoder")
    return tuple(rows)


def _bart_layer(
    config: BartConfig,
    theirs: str,
    ours: str,
    side: str,
    attentions: Mapping[str, str] = MappingProxyType(_ATTENTIONS),
) -> list[Row]:
    sizes = config.encoder_side if side == "encoder" else config.decoder_side
    kernel, bias, out = _projections(sizes)
    rows = []
    attention = f"{theirs}self_attn."
    if side == "encoder" and isinstance(config, LedConfig):
        for kind in ("query", "key", "value"):
            for name in (kind, f"{kind}_global"):
                source = f"{attention}longformer_self_attn.{name}"
                rows += linear(source, f"{ours}attention/{name}", kernel, bias)
        rows += linear(f"{attention}output", f"{ours}attention/out", out)
        attentions = {}
    for start, name in attentions.items():
        for kind in ("query", "key", "value"):
            source = f"{theirs}{start}{kind[0]}_proj"
            rows += linear(source, f"{ours}{name}/{kind}", kernel, bias)
        rows += linear(f"{theirs}{start}out_proj", f"{ours}{name}/out", out)
    rows += norm(f"{theirs}self_attn_layer_norm", f"{ours}attention_norm")
    rows += norm(f"{theirs}encoder_attn_layer_norm", f"{ours}cross_attention_norm")
    rows += linear(f"{theirs}fc1", f"{ours}mlp/wi", TRANSPOSE)
    rows += linear(f"{theirs}fc2", f"{ours}mlp/wo", TRANSPOSE)
    rows += norm(f"{theirs}final_layer_norm", f"{ours}mlp_norm")
    return rows


# What the attention of an encoder is called -> of a config.
_T5_ATTENTIONS = {
    None: "SelfAttention",
    "local": "LocalSelfAttention",
    "transient_global": "TransientGlobalSelfAttention",
}


def _t5_names(config: T5Config) -> tuple[Row, ...]:
    kind = getattr(config, "encoder_attention", None)
    rows = [
        Row(_TABLE, "token_embedder/embedding"),
        Row(_LOGITS, "logits/kernel", TRANSPOSE),
    ]
    for side, attention in (
        ("encoder", _T5_ATTENTIONS[kind]),
        ("decoder", "SelfAttention"),
    ):
        rows.append(Row(f"{side}.final_layer_norm.weight", f"{side}/final_norm/scale"))
        for theirs, ours in (("", ""), ("global_", "block_")):
            # Of the first layer by name, of all in what it does.
            source = f"{side}.block.0.layer.0.{attention}."
            source += f"{theirs}relative_attention_bias.weight"
            rows.append(Row(source, f"{side}/{ours}relpos_bias/rel_embedding"))
        rows += _t5_layer(config, side, attention)
    return tuple(rows)


def _t5_layer(config: T5Config, side: str, attention: str) -> list[Row]:
    kernel, _, out = _projections(config.encoder_side)
    ours = _layer(side)
    branches = [(attention, "attention")]
    if side == "decoder":
        branches.append(("EncDecAttention", "cross_attention"))
    rows = []
    for i, (theirs, name) in enumerate([*branches, ("DenseReluDense", "mlp")]):
        start = f"{side}.block.{{layer}}.layer.{i}."
        rows.append(Row(f"{start}layer_norm.weight", f"{ours}{name}_norm/scale"))
        start += f"{theirs}."
        if name == "mlp":
            for source, target in _T5_MLP[config.gated].items():
                target = f"{ours}mlp/{target}/kernel"
                rows.append(Row(f"{start}{source}.weight", target, TRANSPOSE))
            continue
        for part in ("query", "key", "value"):
            target = f"{ours}{name}/{part}/kernel"
            rows.append(Row(f"{start}{part[0]}.weight", target, kernel))
        rows.append(Row(f"{start}o.weight", f"{ours}{name}/out/kernel", out))
        rows.append(
            Row(
                f"{start}global_input_layer_norm.weight",
                f"{ours}{name}/block_norm/scale",
            )
        )
    return rows


# Maps of the feed-forward block, by whether it is gated; the first gated one is that
# of the activation.
_T5_MLP = {
    False: {"wi": "wi", "wo": "wo"},
    True: {"wi_0": "wi_gate", "wi_1": "wi", "wo": "wo"},
}


def runs_of(config: EncoderDecoderConfig) -> LayerRuns:
    """By which rows name the layers of the encoder."""
    side = config.encoder_side
    top = side.num_layers - side.top_layers if side.top_layers else None
    return LayerRuns("encoder.layers", len(config.patterns), top)


def names(config: EncoderDecoderConfig) -> tuple[Row, ...]:
    """Rows for all weights by the names of `_common`."""
    of_t5 = isinstance(config, T5Config)
    return _t5_names(config) if of_t5 else _bart_names(config)


def _prefix(config: EncoderDecoderConfig) -> str:
    """What stands before the names of the body."""
    return FAMILIES[family_of(config)].body


def _common(source: Mapping[str, np.ndarray], config) -> Renamed:
    """Weights without the prefix, which those of a body alone do not have."""
    prefix, runs = _prefix(config), runs_of(config)
    of_body = not any(name.startswith(prefix) for name in source)

    def back(name: str) -> str:
        alone = of_body or name in (_LOGITS, _LOGITS_BIAS)
        return runs.join(name) if alone else f"{prefix}{runs.join(name)}"

    weights = Renamed(source, lambda x: runs.split(x.removeprefix(prefix)), back)
    return untied(weights, config)


def untied(weights: Renamed, config: EncoderDecoderConfig) -> Renamed:
    """The weights with one name for the token table.

    Raises:
      ValueError: if it is there twice, and not equal.
    """
    names = (*_TIED, _LOGITS) if config.tied_logits else _TIED
    return tied(weights, names)


def refined(
    config: EncoderDecoderConfig, source: Mapping[str, np.ndarray]
) -> EncoderDecoderConfig:
    """The config with what the weights alone show: if logits share the token table.

    Args:
      config: of the checkpoint's config.json.
      source: name -> array; the tables are `[vocab, embed]`.
    """
    if not isinstance(config, T5Config) or _LOGITS not in source:
        return config
    tables = [source[name] for name in _TIED if name in source]
    untied = any(not np.array_equal(source[_LOGITS], table) for table in tables[:1])
    return dataclasses.replace(config, tied_logits=not untied)


def shapes(config: EncoderDecoderConfig) -> Any:
    """Of the parameters of `EncoderDecoder`, as `jax.eval_shape` gives them."""
    model, tokens = EncoderDecoder(config), jnp.zeros((1, 1), jnp.int32)
    init = model.init
    return jax.eval_shape(lambda: init(jax.random.key(0), tokens, tokens))["params"]


def import_hf(
    source: Mapping[str, np.ndarray], config: EncoderDecoderConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """Weights of a checkpoint -> parameters of `EncoderDecoder`.

    Args:
      source: name of transformers -> array of its shape there.
      config: of the checkpoint.
      abstract: of the parameters, see `engine.import_params`.

    Raises:
      ConversionError, ValueError: naming everything that does not fit.
    """
    return import_named(_common(source, config), config, abstract)


def import_named(
    weights: Renamed, config: EncoderDecoderConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """The same of weights by the names of `names`."""
    # Checkpoints of a body alone have no bias of logits, which is zeros then.
    allowed = ("logits_bias",) if _LOGITS_BIAS not in weights else ()
    params, report = import_params(
        *(names(config), weights, abstract),
        allow_missing=allowed,
        allow_unused=(_UNREAD,),
    )
    for name in report.missing:
        params[name] = np.zeros(abstract[name].shape, abstract[name].dtype)
    return params, report


def _check_sizes(weights: Renamed, config: EncoderDecoderConfig) -> None:
    """Refuses weights of another size than the config says, which are only looked at.

    Raises:
      ValueError: naming the keys of config.json.
    """
    size = weights.size
    of_t5 = isinstance(config, T5Config)
    layers = "block" if of_t5 else "layers"
    counts = "num_layers", "num_decoder_layers"
    keys = counts if of_t5 else ("encoder_layers", "decoder_layers")
    pairs = {
        "vocab_size": (config.vocab_size, size(_TABLE, 0)),
        "d_model": (config.embed_dim, size(_TABLE, 1)),
        **{
            key: (getattr(config, field), layers_in(_originals(weights), start))
            for key, field, start in zip(
                keys, counts, (f"encoder.{layers}", f"decoder.{layers}"), strict=True
            )
        },
    }
    if not of_t5:
        sides = {"encoder": config.encoder_side, "decoder": config.decoder_side}
        for key, side in sides.items():
            rows = size(f"{key}.embed_positions.weight", 0)
            rows = None if rows is None else rows - config.position_offset
            pairs[f"positions of the {key}"] = (side.max_length, rows)
    check_sizes(pairs)


def _originals(weights: Renamed) -> list[str]:
    """Names of the checkpoint without what stands before those of the body."""
    return [re.sub(r"^(model|led)\.", "", weights.original(n)) for n in weights]


def read_hf(
    values: Mapping[str, Any],
    source: Mapping[str, np.ndarray],
    config: EncoderDecoderConfig,
) -> tuple[dict[str, Any], Report]:
    """All that a checkpoint has, arrays of their shapes there; see `import_hf` and
    `exchange.Exchange`.
    """
    del values
    _check_sizes(_common(source, config), config)
    return import_hf(source, config, shapes(config))


def export_hf(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """The inverse of `import_hf`."""
    prefix, exported = _prefix(config), export_named(params, config)
    return {
        name if name == _LOGITS_BIAS else f"{prefix}{name}": array
        for name, array in exported.items()
    }


def export_named(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """Weights by the names of transformers, without what stands before the body's."""
    join, exported = runs_of(config).join, export_params(names(config), params)
    return {join(name): array for name, array in exported.items()}


def values_to_hf(
    params: Mapping[str, Any], config: EncoderDecoderConfig
) -> dict[str, Any]:
    """The content of a `config.json`; see `exchange.Exchange`."""
    del params
    return config_to_hf(config)


def _exchange(config_class: type[EncoderDecoderConfig]) -> Exchange:
    functions = config_from_hf, read_hf, export_hf, values_to_hf, refined
    return Exchange(config_class, *functions)


for _name, _keys in FAMILIES.items():
    registry.register("hugging_face", _name)(_exchange(_keys.config_class))
# An mT5 is a T5 1.1 with other defaults, and is written as one.
registry.register("hugging_face", "mt5")(
    _exchange(T5Config)._replace(
        config_from=lambda values: config_from_hf({**MT5, **values, **MT5_IS_T5})
    )
)
