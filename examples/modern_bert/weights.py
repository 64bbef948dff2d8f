"""ModernBERT as Hugging Face writes it: the body, and the head of masked tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from etc_jax.base.rules import (
    MOST,
    NOTHING,
    Rule,
    choice,
    either,
    listed,
    number,
    whole,
)
from etc_jax.conversion.config_rules import (
    EPSILON,
    RATE,
    SPREAD,
    check_head_dim,
    check_sizes,
    layers_in,
    problems,
    raise_all,
)
from etc_jax.conversion.engine import (
    TRANSPOSE,
    Report,
    Row,
    compose,
    export_params,
    import_params,
    split_first,
    split_last,
)
from etc_jax.conversion.exchange import Exchange
from etc_jax.conversion.renaming import LayerRuns, Renamed, tied
from etc_jax.conversion.torch_rows import ACTIVATIONS
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.encoder.weights import shapes
from modern_bert.body import ModernBertForMaskedLm
from modern_bert.config import ModernBertConfig

# Keys of config.json -> fields of one meaning, and what their values may be.
_SAME = {
    "vocab_size": ("vocab_size", whole(1)),
    "hidden_size": ("embed_dim", whole(1)),
    "num_hidden_layers": ("num_layers", whole(2, MOST)),
    "num_attention_heads": ("num_heads", whole(1, MOST)),
    "intermediate_size": ("mlp_dim", whole(1)),
    "max_position_embeddings": ("max_length", whole(1)),
    "local_attention": ("local_window", whole(2)),
    "norm_eps": ("layer_norm_epsilon", EPSILON),
    "initializer_range": ("initializer_range", SPREAD),
    "embedding_dropout": ("dropout_rate", RATE),
    "attention_dropout": ("attention_dropout_rate", RATE),
}
# What models here have one counterpart of.
_ONLY = {
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "tie_word_embeddings": True,
}
_ACTIVATIONS = {"hidden_activation": "gelu", "classifier_activation": "gelu"}
_FULL, _LOCAL = "full_attention", "sliding_attention"
# Kind of layer -> (field, key of transformers 4) of the base of its positions.
_BASES = {
    _FULL: ("global_base", "global_rope_theta"),
    _LOCAL: ("local_base", "local_rope_theta"),
}
_BASE = number(1, 1e30)
# Class of transformers -> whether it has the head of masked tokens.
_CLASSES = {"ModernBertForMaskedLM": True, "ModernBertModel": False}


def _is_default(rope: Any) -> bool:
    return rope is None or (
        isinstance(rope, dict)
        and rope.get("rope_type", "default") == "default"
        and ("rope_theta" not in rope or _BASE.allows(rope["rope_theta"]))
    )


_RULES = {
    **{key: rule for key, (_, rule) in _SAME.items()},
    **{key: choice((value,)) for key, value in _ONLY.items()},
    **{key: _BASE for _, key in _BASES.values()},
    "architectures": either(NOTHING, listed(choice(_CLASSES))),
    "global_attn_every_n_layers": whole(1),
    "hidden_activation": choice(ACTIVATIONS),
    "layer_types": listed(choice((_FULL, _LOCAL))),
    "rope_scaling": NOTHING,
    "rope_parameters": Rule(
        f"{_FULL} and {_LOCAL}, each of the rope_type 'default'",
        lambda x: isinstance(x, dict) and all(_is_default(x.get(k)) for k in _BASES),
    ),
}

_TOKENS, _DECODER = "embeddings.tok_embeddings.weight", "decoder.weight"
_BODY, _HEAD = "model.", ("head.", "decoder.")


def config_from(values: Mapping[str, Any]) -> ModernBertConfig:
    """Reads the dict of a config.json.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    values, title = _ACTIVATIONS | dict(values), "config of a ModernBERT"
    activation = values["hidden_activation"]
    # The head of masked tokens has the activation of the layers here.
    rules = _RULES | {"classifier_activation": choice((activation,))}
    raise_all(title, problems(values, rules))
    fields = {field: values[key] for key, (field, _) in _SAME.items() if key in values}
    for kind, (field, old_key) in _BASES.items():
        rope = values.get("rope_parameters", {}).get(kind) or {}
        if (base := rope.get("rope_theta", values.get(old_key))) is not None:
            fields[field] = base
    fields["activation"] = ACTIVATIONS[activation]
    config = ModernBertConfig(**fields, global_every=_global_every(values))
    raise_all(title, map(" ".join, config.problems()))
    return config


def _global_every(values: Mapping[str, Any]) -> int:
    kinds = values.get("layer_types")
    if kinds is None:
        every = ModernBertConfig.global_every
        return values.get("global_attn_every_n_layers", every)
    full = [i for i, kind in enumerate(kinds) if kind == _FULL]
    every = full[1] if len(full) > 1 else len(kinds)
    layers = values.get("num_hidden_layers", ModernBertConfig.num_layers)
    if full != list(range(0, layers, every)):
        raise ValueError(
            f"layer_types has {_FULL} at {full} of {layers} layers; expected the first "
            "layer and every n-th after it"
        )
    return every


def values_to(params: Mapping[str, Any], config: ModernBertConfig) -> dict[str, Any]:
    """The content of a config.json, as transformers 5 writes it."""
    check_head_dim(config)
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    has_head = "mlm_bias" in params
    # Tokens that transformers would take from the released vocabulary.
    special = "pad_token_id bos_token_id eos_token_id cls_token_id sep_token_id"
    return {
        **{key: getattr(config, field) for key, (field, _) in _SAME.items()},
        **_ONLY,
        **dict.fromkeys(special.split()),
        "model_type": EXCHANGE.model_type,
        "architectures": [name for name, has in _CLASSES.items() if has == has_head],
        **dict.fromkeys(_ACTIVATIONS, names[config.activation]),
        "layer_types": [
            _LOCAL if i % config.global_every else _FULL
            for i in range(config.num_layers)
        ],
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": getattr(config, field)}
            for kind, (field, _) in _BASES.items()
        },
    }


def _runs(config: ModernBertConfig) -> LayerRuns:
    return LayerRuns("layers", config.run, first=1)


def _join(name: str, config: ModernBertConfig, has_head: bool) -> str:
    """What transformers calls what rows know as `name`."""
    name = _runs(config).join(name)
    return _BODY + name if has_head and not name.startswith(_HEAD) else name


def _layer_rows(config: ModernBertConfig, source: str, target: str) -> Iterator[Row]:
    split = split_last(config.num_heads)
    for i, kind in enumerate(("query", "key", "value")):
        kernel = f"{target}attention/{kind}/kernel"
        yield Row(
            f"{source}attn.Wqkv.weight", kernel, compose(TRANSPOSE, split), (i, 3)
        )
    out = compose(TRANSPOSE, split_first(config.num_heads))
    yield Row(f"{source}attn.Wo.weight", f"{target}attention/out/kernel", out)
    # What the activation is applied to stands first.
    for i, name in enumerate(("wi_gate", "wi")):
        kernel = f"{target}mlp/{name}/kernel"
        yield Row(f"{source}mlp.Wi.weight", kernel, TRANSPOSE, (i, 2))
    yield Row(f"{source}mlp.Wo.weight", f"{target}mlp/wo/kernel", TRANSPOSE)
    yield Row(f"{source}attn_norm.weight", f"{target}attention_norm/scale")
    yield Row(f"{source}mlp_norm.weight", f"{target}mlp_norm/scale")


def names(config: ModernBertConfig) -> tuple[Row, ...]:
    """Rows for all weights of the body and the head of masked tokens."""
    rows = [
        Row(_TOKENS, "encoder/embeddings/token_embedder/embedding"),
        Row("embeddings.norm.weight", "encoder/embeddings/embed_norm/scale"),
        Row("final_norm.weight", "encoder/final_norm/scale"),
        Row("head.dense.weight", "mlm_dense/kernel", TRANSPOSE),
        Row("head.norm.weight", "mlm_norm/scale"),
        Row("decoder.bias", "mlm_bias"),
        *_layer_rows(config, "layers.0.", "encoder/first/layers_0/layer_0/"),
    ]
    for i in range(config.run):
        target = f"encoder/rest_stack/layers/period/layer_{i + 1}/"
        rows += _layer_rows(config, _runs(config).source(i), target)
    return tuple(rows)


def read(
    values: Mapping[str, Any],
    source: Mapping[str, np.ndarray],
    config: ModernBertConfig,
) -> tuple[dict[str, Any], Report]:
    """Weights of a checkpoint -> parameters of the body, or of it with its head.

    Raises:
      ConversionError, ValueError: naming what does not fit.
    """
    has_head = "decoder.bias" in source
    del values  # what is there of a head shows in the weights
    weights = Renamed(
        source,
        lambda name: _runs(config).split(name.removeprefix(_BODY)),
        lambda name: _join(name, config, has_head),
    )
    weights = tied(weights, (_TOKENS, _DECODER))
    check_sizes(
        {
            "vocab_size": (config.vocab_size, weights.size(_TOKENS, 0)),
            "hidden_size": (config.embed_dim, weights.size(_TOKENS, 1)),
            "num_hidden_layers": (
                config.num_layers,
                layers_in((name.removeprefix(_BODY) for name in source), "layers"),
            ),
        }
    )
    model = (ModernBertForMaskedLm if has_head else EncoderWithoutHead)(config)
    return import_params(names(config), weights, shapes(model))


def weights_to(
    params: Mapping[str, Any], config: ModernBertConfig
) -> dict[str, np.ndarray]:
    """The inverse of `read`.

    Raises:
      ConversionError: naming parameters of other heads, which transformers computes
        otherwise.
    """
    has_head = "mlm_bias" in params
    exported = export_params(names(config), params)
    return {_join(name, config, has_head): array for name, array in exported.items()}


EXCHANGE = Exchange(
    *(ModernBertConfig, config_from, read, weights_to, values_to),
    model_type="modernbert",
    tokenizer_class="PreTrainedTokenizerFast",
)
