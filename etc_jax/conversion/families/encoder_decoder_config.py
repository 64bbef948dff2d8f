"""Configs of BART, LED, T5 and LongT5 as Hugging Face writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base.rules import (
    MOST,
    NOTHING,
    Rule,
    choice,
    either,
    flag,
    listed,
    shown,
    text,
    whole,
)
from etc_jax.conversion.config_rules import (
    EPSILON,
    RATE,
    SPREAD,
    check_head_dim,
    one_each,
    problems,
    raise_all,
)
from etc_jax.conversion.families.bert import ACTIVATIONS
from etc_jax.conversion.renaming import shortest_run
from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    LongT5Config,
    T5Config,
)

_LOG = logging.getLogger(__name__)


class Key(NamedTuple):
    """A key of config.json.

    Attributes:
      rule: what its value may be.
      default: what transformers takes where a config.json is silent.
      field: of the config, of one meaning; None: see `Keys.fields_from`.
    """

    rule: Rule
    default: Any
    field: str | None = None


class Keys(NamedTuple):
    """The keys of a family's config.json.

    Attributes:
      config_class: of its configs.
      keys: those that say what the model is.
      only: key -> the value that these models have a counterpart of.
      written: what transformers writes besides, the same for every model.
      classes: what the names of its classes begin with.
      fields_from: dict of a config.json, filled with defaults -> more fields of the
        config.
      values_to: config -> more keys of its config.json. Raises ValueError for what
        transformers does not have.
      body: what stands before the names of the body's weights.
    """

    config_class: type[EncoderDecoderConfig]
    keys: Mapping[str, Key]
    only: Mapping[str, Any]
    written: Mapping[str, Any]
    classes: str
    fields_from: Callable[[Mapping[str, Any]], dict[str, Any]]
    values_to: Callable[[Any], dict[str, Any]]
    body: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """Key -> field, of those of one meaning."""
        return {name: key.field for name, key in self.keys.items() if key.field}


_SIZE, _COUNT = whole(1), whole(1, MOST)
_ID, _MAYBE_ID = whole(), either(NOTHING, whole())
_HEAD = "ForConditionalGeneration"
# Classes whose weights are read: with logits, of old versions, and without.
_ENDS = (_HEAD, "WithLMHeadModel", "Model")
_NAMES = either(NOTHING, listed(text(), 0, 8))

_BART = {
    "vocab_size": Key(_SIZE, 50265, "vocab_size"),
    "d_model": Key(_SIZE, 1024, "embed_dim"),
    "encoder_layers": Key(_COUNT, 12, "num_layers"),
    "decoder_layers": Key(_COUNT, 12, "num_decoder_layers"),
    "encoder_attention_heads": Key(_COUNT, 16, "num_heads"),
    "decoder_attention_heads": Key(_COUNT, 16, "num_decoder_heads"),
    "encoder_ffn_dim": Key(_SIZE, 4096, "mlp_dim"),
    "decoder_ffn_dim": Key(_SIZE, 4096, "decoder_mlp_dim"),
    "dropout": Key(RATE, 0.1, "dropout_rate"),
    "attention_dropout": Key(RATE, 0.0, "attention_dropout_rate"),
    "activation_dropout": Key(RATE, 0.0, "activation_dropout_rate"),
    "init_std": Key(SPREAD, 0.02, "initializer_range"),
    "activation_function": Key(choice(ACTIVATIONS), "gelu"),
    "pad_token_id": Key(_ID, 1, "pad_id"),
    "bos_token_id": Key(_MAYBE_ID, 0, "bos_id"),
    "eos_token_id": Key(_ID, 2, "eos_id"),
    "decoder_start_token_id": Key(_ID, 2, "decoder_start_id"),
    "forced_bos_token_id": Key(_MAYBE_ID, None, "forced_bos_id"),
    "forced_eos_token_id": Key(_MAYBE_ID, None, "forced_eos_id"),
    "architectures": Key(_NAMES, None),
}
_BART_ONLY = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
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
_T5 = {
    "vocab_size": Key(_SIZE, 32128, "vocab_size"),
    "d_model": Key(_SIZE, 512, "embed_dim"),
    "d_kv": Key(_SIZE, 64, "head_dim"),
    "d_ff": Key(_SIZE, 2048, "mlp_dim"),
    "num_layers": Key(_COUNT, 6, "num_layers"),
    # By default as many as of the encoder.
    "num_decoder_layers": Key(either(NOTHING, _COUNT), None, "num_decoder_layers"),
    "num_heads": Key(_COUNT, 8, "num_heads"),
    "n_positions": Key(_SIZE, T5Config.max_length, "max_length"),
    "relative_attention_num_buckets": Key(whole(4, 1024), 32, "num_buckets"),
    "relative_attention_max_distance": Key(_SIZE, 128, "max_distance"),
    "dropout_rate": Key(RATE, 0.1, "dropout_rate"),
    "layer_norm_epsilon": Key(EPSILON, 1e-6, "layer_norm_epsilon"),
    "initializer_factor": Key(SPREAD, 1.0, "initializer_range"),
    "feed_forward_proj": Key(choice(_BLOCKS), "relu"),
    "tie_word_embeddings": Key(flag(), True),
    "pad_token_id": Key(_ID, 0, "pad_id"),
    "eos_token_id": Key(_ID, 1, "eos_id"),
    "decoder_start_token_id": Key(_ID, 0, "decoder_start_id"),
    "architectures": Key(_NAMES, None),
}
# What transformers 5 keeps of `tie_word_embeddings`, instead of it.
_SCALED = "scale_decoder_outputs"
_T5_ONLY = {"is_decoder": False, "is_encoder_decoder": True}
_T5_WRITTEN = {
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
MT5_IS_T5 = {"model_type": "t5", _SCALED: False}
_ATTENTIONS = {"local": "local", "transient-global": "transient_global"}


def _of_bart(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"activation": ACTIVATIONS[values["activation_function"]]}


def _of_led(values: Mapping[str, Any]) -> dict[str, Any]:
    key, layers = "attention_window", values["encoder_layers"]
    windows = one_each(values[key], layers, key)
    return {**_of_bart(values), "attention_window": shortest_run(windows)}


def _of_t5(values: Mapping[str, Any]) -> dict[str, Any]:
    gated, activation = _BLOCKS[values["feed_forward_proj"]]
    scaled = values.get(_SCALED, values["tie_word_embeddings"])
    return {
        "gated": gated,
        "activation": activation,
        "scaled_logits": scaled,
        "tied_logits": True,
    }


def _of_longt5(values: Mapping[str, Any]) -> dict[str, Any]:
    kind = _ATTENTIONS[values["encoder_attention_type"]]
    return {**_of_t5(values), "encoder_attention": kind}


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
    rate = config.attention_dropout_rate
    if (of_encoder := config.encoder_side.attention_dropout_rate) != rate:
        _LOG.warning(
            "attention dropout is %s in the encoder and %s in the decoder; LED of "
            "transformers has one rate, for training alone: the decoder's is written",
            of_encoder,
            rate,
        )
    if config.scale_embedding:
        raise ValueError(
            "scale_embedding is True, but transformers' LED has no such scale; keep "
            "this model here"
        )
    repeats = config.num_layers // len(config.patterns)
    # One side -> both sides together.
    windows = [2 * window.radius for window in config.patterns] * repeats
    return {**_to_bart(config), "attention_window": windows}


def _to_t5(config: T5Config) -> dict[str, Any]:
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


def _to_longt5(config: LongT5Config) -> dict[str, Any]:
    theirs = {ours: name for name, ours in _ATTENTIONS.items()}
    kind = theirs[config.encoder_attention]
    return {**_to_t5(config), "encoder_attention_type": kind}


FAMILIES: dict[str, Keys] = {
    "bart": Keys(
        BartConfig,
        {
            **_BART,
            "forced_eos_token_id": Key(_MAYBE_ID, 2, "forced_eos_id"),
            "max_position_embeddings": Key(_SIZE, 1024, "max_length"),
            "scale_embedding": Key(flag(), False, "scale_embedding"),
        },
        _BART_ONLY,
        {
            **_BART_WRITTEN,
            "is_decoder": False,
            "id2label": {str(i): name for name, i in _LABELS.items()},
            "label2id": _LABELS,
        },
        "Bart",
        _of_bart,
        _to_bart,
        "model.",
    ),
    "led": Keys(
        LedConfig,
        {
            **_BART,
            "max_encoder_position_embeddings": Key(_SIZE, 16384, "max_length"),
            "max_decoder_position_embeddings": Key(_SIZE, 1024, "max_target_length"),
            "attention_window": Key(either(whole(2), listed(whole(2))), 512),
        },
        {**_BART_ONLY, "scale_embedding": False},
        _BART_WRITTEN,
        "LED",
        _of_led,
        _to_led,
        "led.",
    ),
    "t5": Keys(
        T5Config,
        _T5,
        _T5_ONLY,
        {**_T5_WRITTEN, "classifier_dropout": 0.0},
        "T5",
        _of_t5,
        _to_t5,
    ),
    "longt5": Keys(
        LongT5Config,
        {
            **_T5,
            "n_positions": Key(_SIZE, LongT5Config.max_length, "max_length"),
            "local_radius": Key(whole(), 127, "radius"),
            "global_block_size": Key(_SIZE, 16, "block_size"),
            "encoder_attention_type": Key(choice(_ATTENTIONS), "local"),
        },
        _T5_ONLY,
        {**_T5_WRITTEN, "bos_token_id": None},
        "LongT5",
        _of_longt5,
        _to_longt5,
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
    # Generation may end with several tokens; targets are learnt with the first one.
    values = dict(values)
    for key in ("eos_token_id", "forced_eos_token_id"):
        if isinstance(ids := values.get(key), list) and ids:
            values[key] = ids[0]
    raise_all("config of an encoder-decoder", _config_problems(values))
    keys = FAMILIES[values["model_type"]]
    defaults = {name: key.default for name, key in keys.keys.items()}
    values = {**defaults, **values}
    if values.get("num_decoder_layers", 0) is None:
        values["num_decoder_layers"] = values["num_layers"]
    fields = {ours: values[theirs] for theirs, ours in keys.fields.items()}
    fields |= keys.fields_from(values)
    config = keys.config_class(**fields)
    raise_all("config of an encoder-decoder", map(" ".join, config.problems()))
    return config


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    family = values.get("model_type")
    if problem := choice(FAMILIES).problem(family):
        yield f"model_type {problem}"
        return
    keys = FAMILIES[family]
    rules = {name: key.rule for name, key in keys.keys.items()} | {_SCALED: flag()}
    if wrong := list(problems(values, rules)):
        yield from wrong
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
    if "head_dim" not in keys.fields.values():
        check_head_dim(config)
    values = {theirs: getattr(config, ours) for theirs, ours in keys.fields.items()}
    values |= keys.values_to(config)
    # Ids that there need not be.
    values = {
        key: value
        for key, value in values.items()
        if value is not None or keys.keys[key].default is not None
    }
    return {
        **keys.written,
        **values,
        "model_type": family,
        "architectures": [f"{keys.classes}{_HEAD}"],
    }
