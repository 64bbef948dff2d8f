"""BERT, RoBERTa, Longformer, BigBird: their names and keys at Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import MOST, choice, either, flag, listed, whole
from etc_jax.conversion.config_rules import one_each
from etc_jax.conversion.families import encoder
from etc_jax.conversion.families.encoder_family import EncoderFamily
from etc_jax.conversion.renaming import shortest_run
from etc_jax.models.encoder.config import (
    BertConfig,
    BigBirdConfig,
    LongformerConfig,
    RobertaConfig,
)

_BERT_MLM = (
    ("cls.predictions.transform.dense.", "mlm.dense."),
    ("cls.predictions.transform.LayerNorm.", "mlm.norm."),
    ("cls.predictions.decoder.", "mlm.decoder."),
    ("cls.predictions.bias", "mlm.bias"),
)
_ROBERTA_MLM = (("lm_head.layer_norm.", "mlm.norm."), ("lm_head.", "mlm."))
_PAD = {"pad_token_id": 1}


def _of_roberta(values: Mapping[str, Any]) -> dict[str, Any]:
    pad = values["pad_token_id"]
    # Positions are counted from the id of padding, which is the table's own pad.
    return {"pad_id": pad, "max_length": values["max_position_embeddings"] - pad - 1}


def _to_roberta(config: RobertaConfig) -> dict[str, Any]:
    return {"pad_token_id": config.pad_id}


def _of_longformer(values: Mapping[str, Any]) -> dict[str, Any]:
    key, layers = "attention_window", values["num_hidden_layers"]
    windows = one_each(values[key], layers, key)
    return {**_of_roberta(values), "attention_window": shortest_run(windows)}


def _to_longformer(config: LongformerConfig) -> dict[str, Any]:
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
    repeats = config.num_layers // len(config.patterns)
    # One side -> both sides together.
    windows = [2 * window.radius for window in config.patterns] * repeats
    return {**_to_roberta(config), "attention_window": windows}


# What BigBird calls its attention -> what it is called here.
_ATTENTIONS = {"block_sparse": "block_sparse", "original_full": "full"}
# Keys that BigBird alone has -> fields.
_SAME_OF_BIGBIRD = {
    "block_size": "block_size",
    "num_random_blocks": "num_random_blocks",
    "rescale_embeddings": "rescale_embeddings",
    "use_bias": "projection_bias",
}


def _of_bigbird(values: Mapping[str, Any]) -> dict[str, Any]:
    fields = {ours: values[theirs] for theirs, ours in _SAME_OF_BIGBIRD.items()}
    return {**fields, "pattern": _ATTENTIONS[values["attention_type"]]}


def _to_bigbird(config: BigBirdConfig) -> dict[str, Any]:
    if config.num_globals:
        raise ValueError(
            f"num_globals is {config.num_globals}, but transformers' BigBird has "
            "no global tokens in front of its blocks; keep this model here"
        )
    theirs = {ours: name for name, ours in _ATTENTIONS.items()}
    same = {key: getattr(config, field) for key, field in _SAME_OF_BIGBIRD.items()}
    return {**same, "attention_type": theirs[config.pattern]}


_FAMILIES = {
    BertConfig: EncoderFamily("Bert", ("bert.",), _BERT_MLM),
    RobertaConfig: EncoderFamily(
        "Roberta",
        ("roberta.",),
        _ROBERTA_MLM,
        defaults=_PAD,
        rules={"pad_token_id": whole()},
        fields_from=_of_roberta,
        values_to=_to_roberta,
    ),
    LongformerConfig: EncoderFamily(
        "Longformer",
        # allenai's own checkpoints keep the name of what they were made of.
        ("longformer.", "roberta."),
        _ROBERTA_MLM,
        defaults={**_PAD, "attention_window": 512},
        rules={
            "pad_token_id": whole(),
            "attention_window": either(whole(2), listed(whole(2))),
        },
        fields_from=_of_longformer,
        values_to=_to_longformer,
    ),
    BigBirdConfig: EncoderFamily(
        "BigBird",
        ("bert.",),
        _BERT_MLM,
        pooler="pooler",
        answers="qa_classifier.",
        defaults={
            "vocab_size": 50358,
            "hidden_act": "gelu_new",
            "max_position_embeddings": 4096,
            "attention_type": "block_sparse",
            "block_size": 64,
            "num_random_blocks": 3,
            "rescale_embeddings": False,
            "use_bias": True,
        },
        rules={
            "attention_type": choice(_ATTENTIONS),
            "block_size": whole(1),
            "num_random_blocks": whole(0, MOST),
            "rescale_embeddings": flag(),
            "use_bias": flag(),
        },
        fields_from=_of_bigbird,
        values_to=_to_bigbird,
    ),
}


def _as_roberta(values: Mapping[str, Any]) -> Any:
    return encoder.config_from_hf({**values, "model_type": "roberta"})


# An XLM-RoBERTa is a RoBERTa with a tokenizer of another kind, and is written as one.
registry.register("hugging_face", "xlm-roberta")(
    encoder.exchange_of(RobertaConfig)._replace(config_from=_as_roberta)
)
for _config_class, _family in _FAMILIES.items():
    _name = registry.name_of("model_config", _config_class)
    registry.register("encoder_family", _name)(_family)
    registry.register("hugging_face", _name)(encoder.exchange_of(_config_class))
