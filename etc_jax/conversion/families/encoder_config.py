"""Configs of BERT, RoBERTa, Longformer and BigBird as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from etc_jax.conversion.config_rules import (
    EPSILON,
    MOST,
    NOTHING,
    RATE,
    SPREAD,
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
from etc_jax.models.encoder_config import (
    BertConfig,
    BigBirdConfig,
    EncoderConfig,
    LongformerConfig,
    RobertaConfig,
)

CONFIGS: dict[str, type[EncoderConfig]] = {
    "bert": BertConfig,
    "roberta": RobertaConfig,
    "longformer": LongformerConfig,
    "big_bird": BigBirdConfig,
}
# What BigBird calls its attention -> what it is called here.
_ATTENTIONS = {"block_sparse": "block_sparse", "original_full": "full"}

# Keys of config.json -> fields, of one meaning.
_SAME = {
    "vocab_size": "vocab_size",
    "type_vocab_size": "num_types",
    "hidden_size": "embed_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "mlp_dim",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "initializer_range": "initializer_range",
    "layer_norm_eps": "layer_norm_epsilon",
}
# What transformers takes where a config.json is silent.
_DEFAULTS = {
    "vocab_size": 30522,
    "type_vocab_size": 2,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 1,
    "attention_window": 512,
}
_DEFAULTS_OF_BIGBIRD = {
    "vocab_size": 50358,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 4096,
    "attention_type": "block_sparse",
    "block_size": 64,
    "num_random_blocks": 3,
    "rescale_embeddings": False,
    "use_bias": True,
}
# What BigBird alone has: key of config.json -> field.
_SAME_OF_BIGBIRD = {
    "block_size": "block_size",
    "num_random_blocks": "num_random_blocks",
    "rescale_embeddings": "rescale_embeddings",
    "use_bias": "projection_bias",
}
# What the value of a key may be, in each family.
RULES = {
    "vocab_size": whole(1),
    "type_vocab_size": whole(1),
    "hidden_size": whole(1),
    "num_hidden_layers": whole(1, MOST),
    "num_attention_heads": whole(1, MOST),
    "intermediate_size": whole(1),
    "max_position_embeddings": whole(1),
    "hidden_act": choice(ACTIVATIONS),
    "hidden_dropout_prob": RATE,
    "attention_probs_dropout_prob": RATE,
    "initializer_range": SPREAD,
    "layer_norm_eps": EPSILON,
    "architectures": either(NOTHING, listed(text(), 0, 8)),
    "attention_type": choice(_ATTENTIONS),
    "sep_token_id": either(NOTHING, whole()),
}
_MORE_RULES = {
    "bert": {},
    "roberta": {"pad_token_id": whole()},
    "longformer": {
        "pad_token_id": whole(),
        "attention_window": either(whole(2), listed(whole(2))),
    },
    "big_bird": {
        "block_size": whole(1),
        "num_random_blocks": whole(0, MOST),
        "rescale_embeddings": flag(),
        "use_bias": flag(),
    },
}
# Key -> the value that these models have a counterpart of.
_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def family_of(config: EncoderConfig) -> str:
    """What Hugging Face calls the family of a config."""
    return next(name for name, cls in CONFIGS.items() if type(config) is cls)


def config_from_hf(values: Mapping[str, Any]) -> EncoderConfig:
    """Reads the dict of a `config.json`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    if found := list(_config_problems(values)):
        raise ValueError("config of an encoder:\n  " + "\n  ".join(found))
    family = values["model_type"]
    more = _DEFAULTS_OF_BIGBIRD if family == "big_bird" else {}
    values = {**_DEFAULTS, **more, **values}
    fields = {ours: values[theirs] for theirs, ours in _SAME.items()}
    fields["activation"] = ACTIVATIONS[values["hidden_act"]]
    offset = 0
    if issubclass(CONFIGS[family], RobertaConfig):
        fields["pad_id"] = values["pad_token_id"]
        offset = fields["pad_id"] + 1
    if family == "longformer":
        windows = values["attention_window"]
        if isinstance(windows, int):
            windows = [windows]
        elif len(windows) != fields["num_layers"]:
            raise ValueError(
                f"attention_window has {len(windows)} entries for "
                f"{fields['num_layers']} layers; expected one for each layer"
            )
        fields["attention_window"] = shortest_run(windows)
    if family == "big_bird":
        fields["pattern"] = _ATTENTIONS[values["attention_type"]]
        for theirs, ours in _SAME_OF_BIGBIRD.items():
            fields[ours] = values[theirs]
    fields["max_length"] = values["max_position_embeddings"] - offset
    config = CONFIGS[family](**fields)
    if found := [f"{field} {message}" for field, message in config.problems()]:
        raise ValueError("config of an encoder:\n  " + "\n  ".join(found))
    return config


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    family = values.get("model_type")
    if not isinstance(family, str) or family not in CONFIGS:
        yield f"model_type is {shown(family)}; expected one of {', '.join(CONFIGS)}"
        return
    yield from problems(values, RULES | _MORE_RULES[family])
    for key, expected in _ONLY.items():
        if key in values and values[key] != expected:
            yield f"{key} is {shown(values[key])}; only {expected!r} has a counterpart"
    mode = values.get("attention_mode", "")
    if mode not in ("", "tvm", "sliding_chunks"):
        yield (
            f"attention_mode is {shown(mode)}, another function than "
            "sliding windows; it has no counterpart"
        )
    if "attention_mode" in values:
        # allenai's own config, which counts one side and has dilation.
        yield (
            "attention_mode is a key of allenai's config, whose attention_window "
            "counts one side; write the config of transformers: twice the window, "
            "model_type longformer"
        )


def config_to_hf(config: EncoderConfig) -> dict[str, Any]:
    """The inverse of `config_from_hf`: a `config.json` but for what depends on heads.

    Raises:
      ValueError: if the config has what transformers does not.
    """
    family = family_of(config)
    values = {theirs: getattr(config, ours) for theirs, ours in _SAME.items()}
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    values |= {
        "model_type": family,
        "hidden_act": names[config.activation],
        "max_position_embeddings": config.num_positions,
        "tie_word_embeddings": True,
    }
    if isinstance(config, RobertaConfig):
        values["pad_token_id"] = config.pad_id
    if isinstance(config, BigBirdConfig):
        if config.num_globals:
            raise ValueError(
                f"num_globals is {config.num_globals}, but transformers' BigBird has "
                "no global tokens in front of its blocks; keep this model here"
            )
        theirs = {ours: name for name, ours in _ATTENTIONS.items()}
        values["attention_type"] = theirs[config.pattern]
        for key, field in _SAME_OF_BIGBIRD.items():
            values[key] = getattr(config, field)
    if isinstance(config, LongformerConfig):
        if config.positions != "learnt":
            raise ValueError(
                f"positions are {config.positions!r}, but transformers' Longformer has "
                "a table of them; keep this model here"
            )
        if config.pre_norm:
            raise ValueError(
                "pre_norm is True, but transformers' Longformer has its norms after "
                "the residuals; keep this model here"
            )
        if config.causal or any(w.dilation != 1 for w in config.patterns):
            raise ValueError(
                "attention is causal or dilated, which transformers' Longformer cannot "
                "compute; keep this model here"
            )
        repeats = config.num_layers // len(config.attention_window)
        values["attention_window"] = list(config.attention_window) * repeats
    return values
