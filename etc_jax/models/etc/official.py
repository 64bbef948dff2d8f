"""Official ETC checkpoints: the config file and the names of the variables.

The names are those of the TensorFlow 1 checkpoints that the code released with the
paper (Ainslie et al. 2020) writes and reads. One table serves every sharing mode:
rows of projections that a model shares have no target and stay out.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.base.rules import MOST, NOTHING, either, flag, text, whole
from etc_jax.conversion.config_rules import RATE, SPREAD, problems, raise_all
from etc_jax.conversion.engine import (
    Report,
    Row,
    import_params,
    split_first,
    split_last,
)
from etc_jax.models.etc.config import EtcConfig

PREFIX = "etc_document_bert/"
_LAYERS = f"{PREFIX}global_local_transformer_layers/"

# Official key -> (our field, the official default); None: required.
_FIELDS: Mapping[str, tuple[str, Any]] = {
    "vocab_size": ("vocab_size", None),
    "segment_vocab_size": ("num_types", 16),
    "embedding_size": ("embedding_dim", None),
    "hidden_size": ("embed_dim", 768),
    "num_hidden_layers": ("num_layers", 12),
    "num_attention_heads": ("num_heads", 12),
    "local_radius": ("radius", 84),
    "att_size_per_head": ("head_dim", None),
    "relative_pos_max_distance": ("max_distance", 12),
    "relative_vocab_size": ("num_labels", 32),
    "max_absolute_position_embeddings": ("max_positions", 0),
    "intermediate_size": ("mlp_dim", 3072),
    "hidden_act": ("activation", "gelu"),
    "hidden_dropout_prob": ("dropout_rate", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout_rate", 0.1),
    "initializer_range": ("initializer_range", 0.02),
    "share_feed_forward_params": ("share_mlp", True),
    "share_kv_projections": ("share_kv", False),
    "share_qkv_projections": ("share_qkv", True),
    "share_att_output_projection": ("share_out", False),
    "use_pre_activation_order": ("pre_norm", False),
    "use_hard_g2l_mask": ("hard_g2l", False),
    "use_hard_l2g_mask": ("hard_l2g", False),
    "grad_checkpointing_period": ("remat_policy", 0),
}

_SHARE = ("feed_forward_params", "kv_projections", "qkv_projections")
_RULES = {
    **dict.fromkeys(("vocab_size", "segment_vocab_size", "hidden_size"), whole(1)),
    **dict.fromkeys(("embedding_size", "att_size_per_head"), either(NOTHING, whole(1))),
    **dict.fromkeys(("num_hidden_layers", "num_attention_heads"), whole(1, MOST)),
    **dict.fromkeys(("local_radius", "intermediate_size"), whole(1)),
    "relative_pos_max_distance": whole(),
    "relative_vocab_size": either(NOTHING, whole(1)),
    "max_absolute_position_embeddings": either(NOTHING, whole()),
    "hidden_act": either(NOTHING, text()),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), RATE),
    "initializer_range": SPREAD,
    **dict.fromkeys(
        [*(f"share_{x}" for x in _SHARE), "use_pre_activation_order"], flag()
    ),
    **dict.fromkeys(("share_att_output_projection", "use_hard_g2l_mask"), flag()),
    **dict.fromkeys(("use_hard_l2g_mask", "use_pre_activation_order"), flag()),
    "grad_checkpointing_period": either(NOTHING, whole()),
}


class OfficialConfig(NamedTuple):
    """A config read from `etc_config.json`.

    Attributes:
      config: ours.
      unknown: keys of the file that mean nothing to the official code or to us.
    """

    config: EtcConfig
    unknown: tuple[str, ...]


def config_from_official(official: Mapping[str, Any]) -> OfficialConfig:
    """Reads the dict of an `etc_config.json`.

    Missing keys take the official defaults, which are not ours: query, key and value
    are shared unless the file says otherwise. Any `grad_checkpointing_period` above 0
    becomes the policy "full": it is a choice of memory, not of values. With a
    `relative_pos_max_distance` of 0 no label is ever used, so label tables are left
    out even if `relative_vocab_size` is set.

    Raises:
      ValueError: if `vocab_size` is missing or the config makes no model.
    """
    if "vocab_size" not in official:
        raise ValueError(
            f"an official ETC config needs vocab_size; got the keys {sorted(official)}"
        )
    raise_all("official ETC config", problems(official, _RULES))
    fields = {
        ours: official.get(key, default) for key, (ours, default) in _FIELDS.items()
    }
    fields["activation"] = fields["activation"] or "linear"
    fields["remat_policy"] = "full" if fields["remat_policy"] else "none"
    if not fields["max_distance"]:
        fields["num_labels"] = None
    config = EtcConfig(**fields)
    ours = {field: key for key, (field, _) in _FIELDS.items()}
    raise_all(
        "official ETC config",
        [f"{ours.get(name, name)} {what}" for name, what in config.problems()],
    )
    return OfficialConfig(config, tuple(sorted(set(official) - set(_FIELDS))))


def attention_names(
    num_heads: int, *, source: str = "", target: str = ""
) -> tuple[Row, ...]:
    """Rows of one fused global-local attention layer.

    Args:
      num_heads: of every projection; official kernels are `[in, heads * head_dim]`,
        head by head.
      source: what stands before the official names, "/" included.
      target: what stands before ours.
    """
    heads = split_last(num_heads)
    query = "{side:long|global}_query"
    pieces = "{piece:l2l|l2g|g2g|g2l}_{kind:key|value}"
    out = "{side:long|global}_output_projection"
    projection = target + "{piece}_{kind}"
    long_table = f"{source}long_qkv_attention/qkv_relative_attention/relative_"
    global_table = f"{source}global_qkv_attention/relative_"
    return (
        Row(f"{source}{query}_projection/linear/{{leaf:kernel|bias}}",
            f"{target}{{side}}_query/{{leaf}}", heads),
        Row(f"{source}{pieces}_projection/linear/{{leaf:kernel|bias}}",
            f"{projection}/{{leaf}}", heads),
        Row(f"{source}{out}/kernel", f"{target}{{side}}_out/kernel",
            split_first(num_heads)),
        Row(f"{source}{out}/bias", f"{target}{{side}}_out/bias"),
        Row(f"{long_table}emb_table", f"{target}long_labels/embedding"),
        Row(f"{long_table}bias_table", f"{target}long_labels/bias"),
        Row(f"{global_table}emb_table", f"{target}global_labels/embedding"),
        Row(f"{global_table}bias_table", f"{target}global_labels/bias"),
    )  # fmt: skip


def _norm(source: str, target: str) -> tuple[Row, Row]:
    return (
        Row(f"{source}/gamma", f"{target}/scale"),
        Row(f"{source}/beta", f"{target}/bias"),
    )


def _feed_forward(source: str, target: str, side: str) -> tuple[Row, ...]:
    """Rows of a feed-forward block and its norm; `side` is a field or nothing."""
    ours = f"{target}{side}" if side else target
    where = f"{_LAYERS}{source}feed_forward_layer_{{layer}}"
    return (
        Row(f"{where}/dense_layers/layer_0/{{leaf:kernel|bias}}",
            f"{ours}mlp/wi/{{leaf}}"),
        Row(f"{where}/dense_layers/layer_1/{{leaf:kernel|bias}}",
            f"{ours}mlp/wo/{{leaf}}"),
        *_norm(f"{where}/layer_norm", f"{ours}mlp_norm"),
    )  # fmt: skip


def official_names(config: EtcConfig, *, target: str = "") -> tuple[Row, ...]:
    """Rows of all variables of the official encoder.

    Args:
      config: of the model; its sharing modes do not matter.
      target: what stands before the encoder's paths, as "encoder/".
    """
    embeddings = f"{target}embeddings/"
    layer = "layers" if config.scan_layers else "layers_{layer}"
    layer = f"{target}stack/{layer}/layer/"
    fused = f"{_LAYERS}fused_att_layer_{{layer}}/"
    table = "embedding_table"
    return (
        Row(f"{PREFIX}{{what:token|segment}}_emb_lookup/{table}",
            f"{embeddings}{{what}}_embedder/embedding"),
        Row(f"{PREFIX}token_emb_lookup/projection/{{leaf:kernel|bias}}",
            f"{embeddings}embedding_projection/{{leaf}}"),
        # Built in the constructor of the official model, outside its name scope.
        Row(f"position_emb_lookup_{{side:long|global}}/{table}",
            f"{embeddings}{{side}}_position_embedder/embedding"),
        *_norm(f"{PREFIX}{{side:long|global}}_emb_layer_norm",
               f"{embeddings}{{side}}_embed_norm"),
        *attention_names(config.num_heads, source=f"{fused}fused_global_local_att/",
                         target=f"{layer}attention/"),
        *_norm(f"{fused}layer_norm_0", f"{layer}long_attention_norm"),
        *_norm(f"{fused}layer_norm_1", f"{layer}global_attention_norm"),
        *_feed_forward("", layer, ""),
        *_feed_forward("{side:long|global}_", layer, "{side}_"),
    )  # fmt: skip


# What training checkpoints hold besides the encoder: step, optimizer slots, heads.
NOT_THE_ENCODER = (
    rf"(?!{re.escape(PREFIX)}|position_emb_lookup_(long|global)/).*",
    r".*/adam_[mv]",
)
_LABEL_TABLES = rf"{re.escape(PREFIX)}.*/relative_(emb|bias)_table"


def import_official(
    source: Mapping[str, np.ndarray],
    config: EtcConfig,
    abstract: Mapping[str, Any],
    *,
    target: str = "",
    head: Sequence[Row] = (),
    allow_missing: Sequence[str] = (),
) -> tuple[dict[str, Any], Report]:
    """Parameters of our encoder from the variables of an official checkpoint.

    Other heads, step and optimizer slots stay unused and stand in the report.

    Args:
      source: variable name -> array of its shape there.
      config: the model's, as `config_from_official` gives it.
      abstract: the model's parameters, from `jax.eval_shape`.
      target: where the encoder stands in them, as "encoder/".
      head: rows of a head that is beside it; see `head_weights.TASKS`.
      allow_missing: regexes of paths that need no source, as heads of our own.

    Raises:
      ConversionError: see `engine.import_params`.
    """
    unused = list(NOT_THE_ENCODER)
    if not config.max_distance:
        unused.append(_LABEL_TABLES)
    return import_params(
        [*official_names(config, target=target), *head],
        source,
        abstract,
        allow_missing=allow_missing,
        allow_unused=unused,
    )
