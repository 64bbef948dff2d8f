"""Configs of BART, LED, T5 and LongT5 as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.conversion.config_rules import (
    EPSILON,
    MOST,
    NOTHING,
    RATE,
    SPREAD,
    Rule,
    choice,
    either,
    flag,
    listed,
    problems,
    shown,
    text,
    whole,
)
from etc_jax.conversion.engine import shortest_run
from etc_jax.conversion.families.bert import ACTIVATIONS
from etc_jax.models.encoder_decoder_config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    LongT5Config,
    T5Config,
)


class Keys(NamedTuple):
    """The keys of a family's config.json.

    Attributes:
      config_class: of its configs.
      fields: key -> field of one meaning.
      defaults: what transformers takes where a config.json is silent.
      rules: what the value of a key may be.
      only: key -> the value that these models have a counterpart of.
      written: what transformers writes besides, the same for every model.
    """

    config_class: type[EncoderDecoderConfig]
    fields: Mapping[str, str]
    defaults: Mapping[str, Any]
    rules: Mapping[str, Rule]
    only: Mapping[str, Any]
    written: Mapping[str, Any]


_ID = whole()
_MAYBE_ID = either(NOTHING, whole())
_HEAD = "ForConditionalGeneration"
# Classes whose weights are read: with logits, of old versions, and without.
_ENDS = (_HEAD, "WithLMHeadModel", "Model")

_BART_FIELDS = {
    "vocab_size": "vocab_size",
    "d_model": "embed_dim",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "num_decoder_heads",
    "encoder_ffn_dim": "mlp_dim",
    "decoder_ffn_dim": "decoder_mlp_dim",
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "activation_dropout": "activation_dropout_rate",
    "init_std": "initializer_range",
    "pad_token_id": "pad_id",
    "bos_token_id": "bos_id",
    "eos_token_id": "eos_id",
    "decoder_start_token_id": "decoder_start_id",
    "forced_bos_token_id": "forced_bos_id",
    "forced_eos_token_id": "forced_eos_id",
}
_BART_DEFAULTS = {
    "vocab_size": 50265,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "init_std": 0.02,
    "activation_function": "gelu",
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
}
_SIZES = whole(1)
_COUNT = whole(1, MOST)
_BART_RULES = {
    "vocab_size": _SIZES,
    "d_model": _SIZES,
    "encoder_layers": _COUNT,
    "decoder_layers": _COUNT,
    "encoder_attention_heads": _COUNT,
    "decoder_attention_heads": _COUNT,
    "encoder_ffn_dim": _SIZES,
    "decoder_ffn_dim": _SIZES,
    "dropout": RATE,
    "attention_dropout": RATE,
    "activation_dropout": RATE,
    "init_std": SPREAD,
    "activation_function": choice(ACTIVATIONS),
    "pad_token_id": _ID,
    "bos_token_id": _MAYBE_ID,
    "eos_token_id": _ID,
    "decoder_start_token_id": _ID,
    "forced_bos_token_id": _MAYBE_ID,
    "forced_eos_token_id": _MAYBE_ID,
    "architectures": either(NOTHING, listed(text(), 0, 8)),
}
_BART_ONLY = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    # Of configs written before transformers 4.
    "normalize_before": False,
    "normalize_embedding": True,
    "add_final_layer_norm": False,
    "static_position_embeddings": False,
}
_BART_WRITTEN = {
    "is_encoder_decoder": True,
    "use_cache": True,
    "dtype": "float32",
    "tie_word_embeddings": True,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "classifier_dropout": 0.0,
}
_LABELS = {f"LABEL_{i}": i for i in range(3)}

_T5_FIELDS = {
    "vocab_size": "vocab_size",
    "d_model": "embed_dim",
    "d_kv": "head_dim",
    "d_ff": "mlp_dim",
    "num_layers": "num_layers",
    "num_decoder_layers": "num_decoder_layers",
    "num_heads": "num_heads",
    "n_positions": "max_length",
    "relative_attention_num_buckets": "num_buckets",
    "relative_attention_max_distance": "max_distance",
    "dropout_rate": "dropout_rate",
    "layer_norm_epsilon": "layer_norm_epsilon",
    "initializer_factor": "initializer_range",
    "pad_token_id": "pad_id",
    "eos_token_id": "eos_id",
    "decoder_start_token_id": "decoder_start_id",
}
_T5_DEFAULTS = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "n_positions": T5Config.max_length,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6,
    "initializer_factor": 1.0,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
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
}
_T5_RULES = {
    "vocab_size": _SIZES,
    "d_model": _SIZES,
    "d_kv": _SIZES,
    "d_ff": _SIZES,
    "num_layers": _COUNT,
    "num_decoder_layers": either(NOTHING, _COUNT),
    "num_heads": _COUNT,
    "n_positions": _SIZES,
    "relative_attention_num_buckets": whole(4, 512),
    "relative_attention_max_distance": whole(2, 100_000),
    "dropout_rate": RATE,
    "layer_norm_epsilon": EPSILON,
    "initializer_factor": SPREAD,
    "feed_forward_proj": choice(_BLOCKS),
    "tie_word_embeddings": flag(),
    "scale_decoder_outputs": flag(),
    "pad_token_id": _ID,
    "eos_token_id": _ID,
    "decoder_start_token_id": _ID,
    "architectures": either(NOTHING, listed(text(), 0, 8)),
}
_T5_ONLY = {"is_decoder": False, "is_encoder_decoder": True}
_T5_WRITTEN = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "use_cache": True,
    "dtype": "float32",
}
_ATTENTIONS = {"local": "local", "transient-global": "transient_global"}

FAMILIES: dict[str, Keys] = {
    "bart": Keys(
        BartConfig,
        {
            **_BART_FIELDS,
            "max_position_embeddings": "max_length",
            "scale_embedding": "scale_embedding",
        },
        {
            **_BART_DEFAULTS,
            "max_position_embeddings": 1024,
            "scale_embedding": False,
            "forced_eos_token_id": 2,
        },
        {
            **_BART_RULES,
            "max_position_embeddings": _SIZES,
            "scale_embedding": flag(),
        },
        _BART_ONLY,
        {
            **_BART_WRITTEN,
            "is_decoder": False,
            "id2label": {str(i): name for name, i in _LABELS.items()},
            "label2id": _LABELS,
        },
    ),
    "led": Keys(
        LedConfig,
        {
            **_BART_FIELDS,
            "max_encoder_position_embeddings": "max_length",
            "max_decoder_position_embeddings": "max_target_length",
        },
        {
            **_BART_DEFAULTS,
            "max_encoder_position_embeddings": 16384,
            "max_decoder_position_embeddings": 1024,
            "attention_window": 512,
        },
        {
            **_BART_RULES,
            "max_encoder_position_embeddings": _SIZES,
            "max_decoder_position_embeddings": _SIZES,
            "attention_window": either(whole(2), listed(whole(2))),
        },
        {**_BART_ONLY, "scale_embedding": False},
        _BART_WRITTEN,
    ),
    "t5": Keys(
        T5Config,
        _T5_FIELDS,
        _T5_DEFAULTS,
        _T5_RULES,
        _T5_ONLY,
        {**_T5_WRITTEN, "classifier_dropout": 0.0},
    ),
    "longt5": Keys(
        LongT5Config,
        {**_T5_FIELDS, "local_radius": "radius", "global_block_size": "block_size"},
        {
            **_T5_DEFAULTS,
            "n_positions": LongT5Config.max_length,
            "encoder_attention_type": "local",
            "local_radius": 127,
            "global_block_size": 16,
        },
        {
            **_T5_RULES,
            "encoder_attention_type": choice(_ATTENTIONS),
            "local_radius": _SIZES,
            "global_block_size": _SIZES,
        },
        _T5_ONLY,
        {**_T5_WRITTEN, "bos_token_id": None},
    ),
}


def family_of(config: EncoderDecoderConfig) -> str:
    """What Hugging Face calls the family of a config."""
    return next(n for n, keys in FAMILIES.items() if type(config) is keys.config_class)


def config_from_hf(values: Mapping[str, Any]) -> EncoderDecoderConfig:
    """Reads the dict of a `config.json`.

    Logits by a matrix of their own do not show in it: see `encoder_decoder.refined`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    if found := list(_config_problems(values)):
        raise ValueError("config of an encoder-decoder:\n  " + "\n  ".join(found))
    keys = FAMILIES[values["model_type"]]
    values = {**keys.defaults, **values}
    if values.get("num_decoder_layers", 0) is None or (
        "num_decoder_layers" in keys.fields and "num_decoder_layers" not in values
    ):
        values["num_decoder_layers"] = values["num_layers"]
    fields = {ours: values[theirs] for theirs, ours in keys.fields.items()}
    fields |= _CHOICES_FROM[values["model_type"]](values)
    config = keys.config_class(**fields)
    if found := [f"{field} {message}" for field, message in config.problems()]:
        raise ValueError("config of an encoder-decoder:\n  " + "\n  ".join(found))
    return config


def _of_bart(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"activation": ACTIVATIONS[values["activation_function"]]}


def _of_led(values: Mapping[str, Any]) -> dict[str, Any]:
    windows, layers = values["attention_window"], values["encoder_layers"]
    if isinstance(windows, int):
        windows = [windows]
    elif len(windows) != layers:
        raise ValueError(
            f"attention_window has {len(windows)} entries for {layers} layers; "
            "expected one for each layer of the encoder"
        )
    return {**_of_bart(values), "attention_window": shortest_run(windows)}


def _of_t5(values: Mapping[str, Any]) -> dict[str, Any]:
    gated, activation = _BLOCKS[values["feed_forward_proj"]]
    # transformers 5 keeps what the file says of tying as this one alone.
    scaled = values.get(
        "scale_decoder_outputs", values.get("tie_word_embeddings") is not False
    )
    return {
        "gated": gated,
        "activation": activation,
        "scaled_logits": scaled,
        "tied_logits": True,
    }


def _of_longt5(values: Mapping[str, Any]) -> dict[str, Any]:
    kind = _ATTENTIONS[values["encoder_attention_type"]]
    return {**_of_t5(values), "encoder_attention": kind}


_CHOICES_FROM = {"bart": _of_bart, "led": _of_led, "t5": _of_t5, "longt5": _of_longt5}


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    family = values.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        yield f"model_type is {shown(family)}; expected one of {', '.join(FAMILIES)}"
        return
    keys = FAMILIES[family]
    if found := list(problems(values, keys.rules)):
        yield from found
        return
    for key, expected in keys.only.items():
        if key in values and values[key] != expected:
            yield f"{key} is {shown(values[key])}; only {expected!r} has a counterpart"
    named = values.get("architectures") or []
    if named and not any(name.endswith(_ENDS) for name in named):
        yield (
            f"architectures is {shown(named)}; what has a counterpart ends with one of "
            f"{', '.join(_ENDS)}"
        )


def config_to_hf(config: EncoderDecoderConfig) -> dict[str, Any]:
    """The inverse of `config_from_hf`: the content of a `config.json`.

    Raises:
      ValueError: if the config has what transformers does not.
    """
    family = family_of(config)
    keys = FAMILIES[family]
    values = {theirs: getattr(config, ours) for theirs, ours in keys.fields.items()}
    values |= _CHOICES_TO[family](config)
    # Ids that there need not be.
    values = {k: v for k, v in values.items() if v is not None or k in keys.defaults}
    prefix = {"led": "LED", "longt5": "LongT5"}.get(family, family.capitalize())
    return {
        **keys.written,
        **values,
        "model_type": family,
        "architectures": [f"{prefix}{_HEAD}"],
    }


def _to_bart(config: BartConfig) -> dict[str, Any]:
    for name, only in (
        ("pre_norm", False),
        ("final_norm", False),
        ("embed_norm", True),
        ("layer_norm_epsilon", 1e-5),
    ):
        if (value := getattr(config, name)) != only:
            raise ValueError(
                f"{name} is {value}, but of transformers' {family_of(config)} it is "
                f"{only}; keep this model here"
            )
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        "activation_function": names[config.activation],
        "decoder_attention_heads": config.decoder_side.num_heads,
        "decoder_ffn_dim": config.decoder_side.mlp_dim,
    }


def _to_led(config: LedConfig) -> dict[str, Any]:
    if config.scale_embedding:
        raise ValueError(
            "scale_embedding is True, but transformers' LED has no such scale; keep "
            "this model here"
        )
    repeats = config.num_layers // len(config.attention_window)
    windows = list(config.attention_window) * repeats
    return {**_to_bart(config), "attention_window": windows}


def _to_t5(config: T5Config) -> dict[str, Any]:
    names = {block: theirs for theirs, block in _BLOCKS.items()}
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


def _to_longt5(config: LongT5Config) -> dict[str, Any]:
    theirs = {ours: name for name, ours in _ATTENTIONS.items()}
    kind = theirs[config.encoder_attention]
    return {**_to_t5(config), "encoder_attention_type": kind}


_CHOICES_TO = {"bart": _to_bart, "led": _to_led, "t5": _to_t5, "longt5": _to_longt5}
