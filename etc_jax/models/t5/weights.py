"""T5 as Hugging Face writes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.base import registry
from etc_jax.base.rules import NOTHING, choice, either, flag, whole
from etc_jax.conversion.config_rules import EPSILON, RATE, SPREAD
from etc_jax.conversion.engine import TRANSPOSE, Row
from etc_jax.models.encoder_decoder.hf_config import (
    COUNT,
    ID,
    NAMES,
    SCALED,
    SIZE,
    Key,
    Keys,
    config_from_hf,
)
from etc_jax.models.encoder_decoder.weights import (
    LOGITS,
    TABLE,
    TIED,
    exchange_of,
    layer_path,
    projections,
)
from etc_jax.models.t5.config import T5Config

# What the feed-forward block is called -> (gated, activation).
_BLOCKS = {
    "relu": (False, "relu"),
    "gelu": (False, "gelu_exact"),
    "gelu_new": (False, "gelu"),
    "silu": (False, "silu"),
    "gated-relu": (True, "relu"),
    # By name the exact one, by what it computes the tanh approximation.
    "gated-gelu": (True, "gelu"),
    "gated-silu": (True, "silu"),
    "tanh": (False, "tanh"),
    "gated-tanh": (True, "tanh"),
    # Other names of the same functions.
    "swish": (False, "silu"),
    "gated-swish": (True, "silu"),
    "gated-gelu_new": (True, "gelu"),
}
KEYS = {
    "vocab_size": Key(SIZE, 32128, "vocab_size"),
    "d_model": Key(SIZE, 512, "embed_dim"),
    "d_kv": Key(SIZE, 64, "head_dim"),
    "d_ff": Key(SIZE, 2048, "mlp_dim"),
    "num_layers": Key(COUNT, 6, "num_layers"),
    # By default as many as of the encoder.
    "num_decoder_layers": Key(either(NOTHING, COUNT), None, "num_decoder_layers"),
    "num_heads": Key(COUNT, 8, "num_heads"),
    "n_positions": Key(SIZE, T5Config.max_length, "max_length"),
    "relative_attention_num_buckets": Key(whole(4, 1024), 32, "num_buckets"),
    "relative_attention_max_distance": Key(SIZE, 128, "max_distance"),
    "dropout_rate": Key(RATE, 0.1, "dropout_rate"),
    "layer_norm_epsilon": Key(EPSILON, 1e-6, "layer_norm_epsilon"),
    "initializer_factor": Key(SPREAD, 1.0, "initializer_range"),
    "feed_forward_proj": Key(choice(_BLOCKS), "relu"),
    "tie_word_embeddings": Key(flag(), True),
    "pad_token_id": Key(ID, 0, "pad_id"),
    "eos_token_id": Key(ID, 1, "eos_id"),
    "decoder_start_token_id": Key(ID, 0, "decoder_start_id"),
    "architectures": Key(NAMES, None),
}
COUNTS = ("num_layers", "num_decoder_layers")
ONLY = {"is_decoder": False, "is_encoder_decoder": True}
WRITTEN = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "use_cache": True,
    "dtype": "float32",
}
# What transformers takes where the config.json of an mT5 is silent.
MT5 = {
    "vocab_size": 250112,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
}
# Its outputs are never scaled, whatever `tie_word_embeddings` says.
MT5_IS_T5 = {"model_type": "t5", SCALED: False}


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `Keys`."""
    gated, activation = _BLOCKS[values["feed_forward_proj"]]
    scaled = values.get(SCALED, values["tie_word_embeddings"])
    return {
        "gated": gated,
        "activation": activation,
        "scaled_logits": scaled,
        "tied_logits": True,
    }


def values_to(config: T5Config) -> dict[str, Any]:
    """See `Keys`."""
    names = {block: theirs for theirs, block in reversed(_BLOCKS.items())}
    block = config.gated, config.activation
    if block not in names:
        raise ValueError(
            f"activation is {config.activation!r} in blocks that are gated "
            f"({config.gated}), which transformers' T5 does not have; keep this model "
            "here"
        )
    name = names[block]
    return {
        "feed_forward_proj": name,
        "is_gated_act": config.gated,
        "dense_act_fn": "gelu_new" if name == "gated-gelu" else name.split("-")[-1],
        "tie_word_embeddings": config.scaled_logits,
    }


# What the attention of an encoder is called -> of a config.
_ATTENTIONS = {
    None: "SelfAttention",
    "local": "LocalSelfAttention",
    "transient_global": "TransientGlobalSelfAttention",
}


def names(config: T5Config) -> tuple[Row, ...]:
    """Rows for all weights, by the names of transformers."""
    kind = getattr(config, "encoder_attention", None)
    rows = [
        Row(TABLE, "token_embedder/embedding"),
        Row(LOGITS, "logits/kernel", TRANSPOSE),
    ]
    for side, attention in (
        ("encoder", _ATTENTIONS[kind]),
        ("decoder", "SelfAttention"),
    ):
        rows.append(Row(f"{side}.final_layer_norm.weight", f"{side}/final_norm/scale"))
        for theirs, ours in (("", ""), ("global_", "block_")):
            # Of the first layer by name, of all in what it does.
            source = f"{side}.block.0.layer.0.{attention}."
            source += f"{theirs}relative_attention_bias.weight"
            rows.append(Row(source, f"{side}/{ours}relpos_bias/rel_embedding"))
        rows += _layer_rows(config, side, attention)
    return tuple(rows)


def _layer_rows(config: T5Config, side: str, attention: str) -> list[Row]:
    kernel, _, out = projections(config.encoder_side)
    ours = layer_path(side)
    branches = [(attention, "attention")]
    if side == "decoder":
        branches.append(("EncDecAttention", "cross_attention"))
    rows = []
    for i, (theirs, name) in enumerate([*branches, ("DenseReluDense", "mlp")]):
        start = f"{side}.block.{{layer}}.layer.{i}."
        rows.append(Row(f"{start}layer_norm.weight", f"{ours}{name}_norm/scale"))
        start += f"{theirs}."
        if name == "mlp":
            for source, target in _MLP[config.gated].items():
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
_MLP = {
    False: {"wi": "wi", "wo": "wo"},
    True: {"wi_0": "wi_gate", "wi_1": "wi", "wo": "wo"},
}


def refined(config: T5Config, source: Mapping[str, np.ndarray]) -> T5Config:
    """The config with what the weights alone show: if logits share the token table.

    Args:
      config: of the checkpoint's config.json.
      source: name -> array; the tables are `[vocab, embed]`.
    """
    if LOGITS not in source:
        return config
    tables = [source[name] for name in TIED if name in source]
    untied = any(not np.array_equal(source[LOGITS], table) for table in tables[:1])
    return dataclasses.replace(config, tied_logits=not untied)


EXCHANGE = exchange_of(
    T5Config,
    Keys(
        KEYS,
        ONLY,
        {**WRITTEN, "classifier_dropout": 0.0},
        "T5",
        fields_from,
        values_to,
        layers="block",
        counts=COUNTS,
    ),
    refined=refined,
    tokenizer_class="T5Tokenizer",
)
# An mT5 is a T5 1.1 with other defaults, and is written as one.
registry.register("hugging_face", "mt5")(
    EXCHANGE._replace(
        config_class=None,
        config_from=lambda values: config_from_hf({**MT5, **values, **MT5_IS_T5}),
    )
)
