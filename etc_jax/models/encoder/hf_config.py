"""Configs of encoders of one sequence as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base import registry
from etc_jax.base.rules import (
    MOST,
    NOTHING,
    Rule,
    choice,
    either,
    listed,
    shown,
    text,
    whole,
)
from etc_jax.conversion import exchange
from etc_jax.conversion.config_rules import (
    EPSILON,
    RATE,
    SPREAD,
    check_head_dim,
    problems,
    raise_all,
)
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.torch_rows import ACTIVATIONS
from etc_jax.models.encoder.config import EncoderConfig

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
    "sep_token_id": either(NOTHING, whole()),
}
# Key -> the value that these models have a counterpart of.
_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


class EncoderFamily(NamedTuple):
    """Names and keys of one family.

    Attributes:
      classes: what the names of its classes begin with.
      bodies: what stands before the names of the body where there is a head; the first
        one is written.
      mlm: (start of a name there, start of the name in `weight_names`) of the head of
        masked tokens; the first that fits counts.
      pooler: start of the names of the pooler.
      answers: what stands before the names of the layer of spans.
      defaults: key -> what transformers takes where a config.json is silent, if that is
        not BERT's.
      rules: what the value of a key may be that the others do not have.
      fields_from: dict of a config.json, filled with defaults -> more fields of the
        config.
      values_to: config -> more keys of its config.json. Raises ValueError for what
        transformers cannot compute.
    """

    classes: str
    bodies: tuple[str, ...]
    mlm: tuple[tuple[str, str], ...]
    pooler: str = "pooler.dense"
    answers: str = ""
    defaults: Mapping[str, Any] = {}
    rules: Mapping[str, Rule] = {}
    fields_from: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda values: {}
    values_to: Callable[[Any], dict[str, Any]] = lambda config: {}


def facts_of(family: str) -> EncoderFamily:
    """What differs in a family.

    Raises:
      KeyError: if that is none of encoders of one sequence.
    """
    facts = registry.lookup("hugging_face", family).facts
    if not isinstance(facts, EncoderFamily):
        raise KeyError(f"{family} is no family of encoders of one sequence")
    return facts


def config_from_hf(values: Mapping[str, Any]) -> EncoderConfig:
    """Reads the dict of a `config.json`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    raise_all("config of an encoder", _config_problems(values))
    name = values["model_type"]
    family = facts_of(name)
    values = {**_DEFAULTS, **family.defaults, **values}
    fields = {ours: values[theirs] for theirs, ours in _SAME.items()}
    fields["activation"] = ACTIVATIONS[values["hidden_act"]]
    fields["max_length"] = values["max_position_embeddings"]
    fields |= family.fields_from(values)
    config = registry.lookup("model_config", name)(**fields)
    raise_all("config of an encoder", map(" ".join, config.problems()))
    return config


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    name, names = values.get("model_type"), exchange.model_types(EncoderFamily)
    if problem := choice(names).problem(name):
        yield f"model_type {problem}"
        return
    yield from problems(values, {**RULES, **facts_of(name).rules})
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
    check_head_dim(config)
    values = {theirs: getattr(config, ours) for theirs, ours in _SAME.items()}
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        **values,
        "model_type": family,
        "hidden_act": names[config.activation],
        "max_position_embeddings": config.num_positions,
        "tie_word_embeddings": True,
        **facts_of(family).values_to(config),
    }
