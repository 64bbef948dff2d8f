"""Configs of encoder-decoders as Hugging Face writes them.

A family's `Keys` are the facts of its `Exchange`.
"""

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
    flag,
    listed,
    shown,
    text,
    whole,
)
from etc_jax.conversion import exchange
from etc_jax.conversion.config_rules import check_head_dim, problems, raise_all
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig


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
      keys: those that say what the model is.
      only: key -> the value that these models have a counterpart of.
      written: what transformers writes besides, the same for every model.
      classes: what the names of its classes begin with.
      fields_from: dict of a config.json, filled with defaults -> more fields of the
        config.
      values_to: config -> more keys of its config.json. Raises ValueError for what
        transformers does not have.
      body: what stands before the names of the body's weights.
      layers: what stands before the number of a layer.
      counts: keys of the layers of the encoder, and of the decoder.
    """

    keys: Mapping[str, Key]
    only: Mapping[str, Any]
    written: Mapping[str, Any]
    classes: str
    fields_from: Callable[[Mapping[str, Any]], dict[str, Any]]
    values_to: Callable[[Any], dict[str, Any]]
    body: str = ""
    layers: str = "layers"
    counts: tuple[str, str] = ("encoder_layers", "decoder_layers")

    @property
    def fields(self) -> dict[str, str]:
        """Key -> field, of those of one meaning."""
        return {name: key.field for name, key in self.keys.items() if key.field}


SIZE, COUNT = whole(1), whole(1, MOST)
ID, MAYBE_ID = whole(), either(NOTHING, whole())
NAMES = either(NOTHING, listed(text(), 0, 8))
_HEAD = "ForConditionalGeneration"
# Classes whose weights are read: with logits, of old versions, and without.
_ENDS = (_HEAD, "WithLMHeadModel", "Model")
# What transformers 5 keeps of `tie_word_embeddings`, instead of it.
SCALED = "scale_decoder_outputs"


def keys_of(config: EncoderDecoderConfig) -> Keys:
    """Those of the family of a config, which transformers has."""
    return exchange.of(config).facts


def config_from_hf(values: Mapping[str, Any]) -> EncoderDecoderConfig:
    """Reads the dict of a `config.json`.

    Logits by a matrix of their own do not show in it: see `t5.weights.refined`.

    Raises:
      ValueError: naming everything that has no counterpart.
    """
    # Generation may end with several tokens; targets are learnt with the first one.
    values = dict(values)
    for key in ("eos_token_id", "forced_eos_token_id"):
        if isinstance(ids := values.get(key), list) and ids:
            values[key] = ids[0]
    raise_all("config of an encoder-decoder", _config_problems(values))
    family = registry.lookup("hugging_face", values["model_type"])
    keys = family.facts
    defaults = {name: key.default for name, key in keys.keys.items()}
    values = {**defaults, **values}
    if values.get("num_decoder_layers", 0) is None:
        values["num_decoder_layers"] = values["num_layers"]
    fields = {ours: values[theirs] for theirs, ours in keys.fields.items()}
    fields |= keys.fields_from(values)
    config = family.config_class(**fields)
    raise_all("config of an encoder-decoder", map(" ".join, config.problems()))
    return config


def _config_problems(values: Mapping[str, Any]) -> Iterator[str]:
    family = values.get("model_type")
    if problem := choice(exchange.model_types(Keys)).problem(family):
        yield f"model_type {problem}"
        return
    keys = registry.lookup("hugging_face", family).facts
    rules = {name: key.rule for name, key in keys.keys.items()} | {SCALED: flag()}
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
    keys = keys_of(config)
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
        "model_type": exchange.model_type_of(config),
        "architectures": [f"{keys.classes}{_HEAD}"],
    }
