"""Reformer as Hugging Face writes it: config, weights, both ways."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base.rules import (
    LARGEST,
    MOST,
    NOTHING,
    choice,
    either,
    flag,
    listed,
    shown,
    whole,
)
from etc_jax.conversion.config_rules import (
    EPSILON,
    RATE,
    SPREAD,
    check_sizes,
    layers_in,
    problems,
    raise_all,
)
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
from etc_jax.conversion.exchange import Exchange
from etc_jax.conversion.renaming import LayerRuns, Renamed, shortest_run
from etc_jax.conversion.torch_rows import ACTIVATIONS, linear, norm
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import KINDS, ReformerConfig

_HEAD_BIAS = "lm_head.bias"
# The same array as `_HEAD_BIAS`, which some versions of transformers save besides. From
# 5.24 on it is this one that is added, and the other one is zeros that nothing reads.
_HEAD_BIAS_AGAIN = "lm_head.decoder.bias"
_LAYERS = "reformer.encoder.layers"

# Keys of config.json -> fields of `ReformerConfig`, of one meaning.
_SAME = {
    "vocab_size": "vocab_size",
    "hidden_size": "embed_dim",
    "num_attention_heads": "num_heads",
    "attention_head_size": "head_dim",
    "feed_forward_size": "mlp_dim",
    "max_position_embeddings": "max_length",
    "local_attn_chunk_length": "local_chunk_length",
    "local_num_chunks_before": "local_chunks_before",
    "local_num_chunks_after": "local_chunks_after",
    "lsh_attn_chunk_length": "lsh_chunk_length",
    "lsh_num_chunks_before": "lsh_chunks_before",
    "lsh_num_chunks_after": "lsh_chunks_after",
    "num_hashes": "num_hashes",
    "is_decoder": "causal",
    "hidden_dropout_prob": "dropout_rate",
    "initializer_range": "initializer_range",
    "layer_norm_eps": "layer_norm_epsilon",
    "chunk_size_feed_forward": "mlp_chunk_length",
    "chunk_size_lm_head": "logits_chunk_length",
}
# What transformers takes where a config.json is silent.
_DEFAULTS = {
    "attention_head_size": 64,
    "attn_layers": ["local", "lsh", "local", "lsh", "local", "lsh"],
    "axial_pos_embds": True,
    "axial_pos_embds_dim": [64, 192],
    "axial_pos_shape": [64, 64],
    "chunk_size_feed_forward": 0,
    "chunk_size_lm_head": 0,
    "feed_forward_size": 512,
    "hash_seed": None,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.05,
    "hidden_size": 256,
    "initializer_range": 0.02,
    "is_decoder": False,
    "layer_norm_eps": 1e-12,
    "local_attention_probs_dropout_prob": 0.05,
    "local_attn_chunk_length": 64,
    "local_num_chunks_after": 0,
    "local_num_chunks_before": 1,
    "lsh_attention_probs_dropout_prob": 0.0,
    "lsh_attn_chunk_length": 64,
    "lsh_num_chunks_after": 0,
    "lsh_num_chunks_before": 1,
    "max_position_embeddings": 4096,
    "num_attention_heads": 12,
    "num_buckets": None,
    "num_hashes": 1,
    "vocab_size": 320,
}

_NUMBER_PAIR = listed(whole(1), 2, 2)
# What the value of a key may be.
RULES = {
    "vocab_size": whole(1),
    "hidden_size": whole(1),
    "num_attention_heads": whole(1, MOST),
    "attention_head_size": whole(1),
    "feed_forward_size": whole(1),
    "max_position_embeddings": whole(1),
    **{
        f"{kind}_{what}": whole(low)
        for kind in KINDS
        for what, low in (
            ("attn_chunk_length", 1),
            ("num_chunks_before", 0),
            ("num_chunks_after", 0),
        )
    },
    **{f"{kind}_attention_probs_dropout_prob": RATE for kind in KINDS},
    "num_hashes": whole(1, MOST),
    "num_buckets": either(NOTHING, whole(2), listed(whole(2), 1, 2)),
    "hash_seed": either(NOTHING, whole(-LARGEST)),
    "is_decoder": flag(),
    "hidden_act": choice(ACTIVATIONS),
    "hidden_dropout_prob": RATE,
    "initializer_range": SPREAD,
    "layer_norm_eps": EPSILON,
    "chunk_size_feed_forward": whole(),
    "chunk_size_lm_head": whole(),
    "attn_layers": listed(choice(KINDS)),
    "axial_pos_embds": flag(),
    "axial_pos_shape": _NUMBER_PAIR,
    "axial_pos_embds_dim": _NUMBER_PAIR,
}


def config_from_hf(values: Mapping[str, Any]) -> ReformerConfig:
    """Reads the dict of a `config.json`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    raise_all("config of Reformer", _config_problems(values))
    values = {**_DEFAULTS, **values}
    fields = {ours: values[theirs] for theirs, ours in _SAME.items()}
    layers = tuple(values["attn_layers"])
    axial = bool(values["axial_pos_embds"])
    local, by_hash = (values[f"{k}_attention_probs_dropout_prob"] for k in KINDS)
    config = ReformerConfig(
        **fields,
        num_layers=len(layers),
        pattern=shortest_run(layers),
        axial_shape=tuple(values["axial_pos_shape"]) if axial else None,
        axial_dims=tuple(values["axial_pos_embds_dim"]) if axial else None,
        num_buckets=_from_hf(values["num_buckets"]),
        hash_seed=values["hash_seed"] or 0,
        activation=ACTIVATIONS[values["hidden_act"]],
        attention_dropout_rate=local,
        lsh_attention_dropout_rate=None if by_hash == local else by_hash,
    )
    raise_all("config of Reformer", map(" ".join, config.problems()))
    return config


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("model_type") != "reformer":
        yield f"model_type is {shown(values.get('model_type'))}; expected 'reformer'"
    values = {**_DEFAULTS, **values}
    yield from problems(values, RULES)


def config_to_hf(config: ReformerConfig) -> dict[str, Any]:
    """The inverse of `config_from_hf`: the content of a `config.json`.

    Raises:
      ValueError: if it has no counterpart.
    """
    c = config
    if c.positions != "learnt":
        raise ValueError(
            f"model.positions is {c.positions!r}; transformers' Reformer has tables of "
            "positions alone, so this model cannot be written for it"
        )
    if len(c.axial_shape or ()) > 2:
        raise ValueError(
            f"model.axial_shape is {c.axial_shape}; transformers computes positions of "
            "two axes alone, so this model cannot be written for it"
        )
    half = c.embed_dim // 2
    values = {theirs: getattr(c, ours) for theirs, ours in _SAME.items()}
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    lm = "ReformerModelWithLMHead" if c.causal else "ReformerForMaskedLM"
    return values | {
        "model_type": "reformer",
        "architectures": [lm],
        "attention_head_size": c.attention_head_dim,
        "attn_layers": list(c.run) * (c.num_layers // len(c.run)),
        "num_hidden_layers": c.num_layers,
        "axial_pos_embds": c.axial_shape is not None,
        "axial_pos_shape": list(c.axial_shape or (1, c.max_length)),
        "axial_pos_embds_dim": list(c.axial_dims or (half, c.embed_dim - half)),
        "num_buckets": _as_in_hf(c.num_buckets),
        "hash_seed": c.hash_seed,
        "hidden_act": names[c.activation],
        "tie_word_embeddings": False,
        **{
            f"{kind}_attention_probs_dropout_prob": rate
            for kind, rate in c.attention_dropout_rates.items()
        },
    }


def _from_hf(buckets: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if buckets is None:
        return None
    return (buckets,) if isinstance(buckets, int) else tuple(buckets)


def _as_in_hf(buckets: tuple[int, ...] | None) -> int | list[int] | None:
    if buckets is None:
        return None
    return buckets[0] if len(buckets) == 1 else list(buckets)


def _squeezed(axis: int) -> Transform:
    """An axis of 1 that our array does not have."""
    return Transform(lambda x: np.squeeze(x, axis), lambda x: np.expand_dims(x, axis))


def _runs(config: ReformerConfig) -> LayerRuns:
    return LayerRuns(_LAYERS, len(config.run))


def names(config: ReformerConfig) -> tuple[Row, ...]:
    """Rows for all weights, with layers named by their place in a repeat."""
    heads, runs = config.num_heads, _runs(config)
    project = compose(TRANSPOSE, split_last(heads))
    out = compose(TRANSPOSE, split_first(heads))
    theirs, ours = "reformer.embeddings.", "encoder/embeddings/"
    rows = [
        Row(f"{theirs}word_embeddings.weight", f"{ours}token_embedder/embedding"),
        Row(
            f"{theirs}position_embeddings.embedding.weight",
            f"{ours}position_embedder/embedding",
        ),
        Row(
            f"{theirs}position_embeddings.weights.0",
            f"{ours}position_embedder/rows",
            _squeezed(1),
        ),
        Row(
            f"{theirs}position_embeddings.weights.1",
            f"{ours}position_embedder/columns",
            _squeezed(0),
        ),
        *norm("reformer.encoder.layer_norm", "encoder/final_norm"),
        Row("lm_head.decoder.weight", "logits/kernel", TRANSPOSE),
        Row(_HEAD_BIAS, "logits/bias"),
    ]
    for i, kind in enumerate(config.run):
        theirs = runs.source(i)
        ours = f"encoder/stack/layers/{kind}_{i}/"
        rows += norm(f"{theirs}attention.layer_norm", f"{ours}f/attention_norm")
        queries = ("query_key",) if kind == "lsh" else ("query", "key")
        for name in (*queries, "value"):
            rows.append(
                Row(
                    f"{theirs}attention.self_attention.{name}.weight",
                    f"{ours}f/attention/{name}/kernel",
                    project,
                )
            )
        rows.append(
            Row(
                f"{theirs}attention.output.dense.weight",
                f"{ours}f/attention/out/kernel",
                out,
            )
        )
        rows += norm(f"{theirs}feed_forward.layer_norm", f"{ours}g/mlp_norm")
        for name, target in (("dense", "wi"), ("output", "wo")):
            rows += linear(
                f"{theirs}feed_forward.{name}.dense",
                f"{ours}g/mlp/{target}",
                TRANSPOSE,
            )
    return tuple(rows)


def import_hf(
    source: Mapping[str, np.ndarray], config: ReformerConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """Weights of a checkpoint -> parameters of `ReformerLm`.

    Args:
      source: name of transformers -> array of its shape there.
      config: of the checkpoint.
      abstract: of the parameters, see `engine.import_params`.

    Raises:
      ConversionError: naming everything that does not fit.
    """
    split = _runs(config).split
    weights = Renamed(source, split)
    if _HEAD_BIAS_AGAIN not in weights:
        return import_params(names(config), weights, abstract)
    other = weights.get(_HEAD_BIAS_AGAIN)
    first = weights.get(_HEAD_BIAS) if _HEAD_BIAS in weights else np.zeros_like(other)
    if not np.any(first):
        swapped = {_HEAD_BIAS: _HEAD_BIAS_AGAIN, _HEAD_BIAS_AGAIN: _HEAD_BIAS}
        weights = Renamed(source, lambda name: swapped.get(name, split(name)))
    elif not np.array_equal(first, other):
        raise ValueError(
            f"{_HEAD_BIAS} and {_HEAD_BIAS_AGAIN} differ, but transformers takes "
            "them for one array; remove one of them"
        )
    params, report = import_params(
        names(config), weights, abstract, allow_unused=(re.escape(_HEAD_BIAS_AGAIN),)
    )
    # It was read: to be compared, or in the other's place.
    unused = tuple(name for name in report.unused if name != _HEAD_BIAS_AGAIN)
    return params, dataclasses.replace(report, unused=unused)


def shapes(config: ReformerConfig) -> Any:
    """Of the parameters of `ReformerLm`, as `jax.eval_shape` gives them."""
    model, tokens = ReformerLm(config), jnp.zeros((1, 1), jnp.int32)
    return jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]


def read_hf(
    values: Mapping[str, Any], source: Mapping[str, np.ndarray], config: ReformerConfig
) -> tuple[dict[str, Any], Report]:
    """All that a checkpoint has, arrays of their shapes there; see `import_hf` and
    `exchange.Exchange`.
    """
    del values
    table = "reformer.embeddings.word_embeddings.weight"
    shape = source[table].shape if table in source else (None,)
    check_sizes(
        {
            "vocab_size": (config.vocab_size, shape[0] if shape else None),
            "attn_layers": (config.num_layers, layers_in(source, _LAYERS)),
        }
    )
    return import_hf(source, config, shapes(config))


def export_hf(params: Mapping[str, Any], config: ReformerConfig) -> dict[str, Any]:
    """The inverse of `import_hf`."""
    join = _runs(config).join
    exported = export_params(names(config), params)
    return {join(name): array for name, array in exported.items()}


def weights_to_hf(params: Mapping[str, Any], config: ReformerConfig) -> dict[str, Any]:
    """Weights for a folder: `export_hf`, and the bias of the logits by both names.

    Versions of transformers differ in which of the two they read.
    """
    exported = export_hf(params, config)
    return {**exported, _HEAD_BIAS_AGAIN: exported[_HEAD_BIAS]}


def values_to_hf(params: Mapping[str, Any], config: ReformerConfig) -> dict[str, Any]:
    """The content of a `config.json`; see `exchange.Exchange`."""
    del params
    return config_to_hf(config)


EXCHANGE = Exchange(
    ReformerConfig,
    config_from_hf,
    read_hf,
    weights_to_hf,
    values_to_hf,
    tokenizer_class="ReformerTokenizer",
)
