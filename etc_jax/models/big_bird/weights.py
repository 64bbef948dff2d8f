"""BigBird as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.base.rules import MOST, choice, flag, whole
from etc_jax.models.bert.weights import MLM
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.hf_config import EncoderFamily
from etc_jax.models.encoder.weights import exchange_of

# What BigBird calls its attention -> what it is called here.
_ATTENTIONS = {"block_sparse": "block_sparse", "original_full": "full"}
# Keys that BERT has not -> fields.
_SAME = {
    "block_size": "block_size",
    "num_random_blocks": "num_random_blocks",
    "rescale_embeddings": "rescale_embeddings",
    "use_bias": "projection_bias",
}


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `EncoderFamily`."""
    fields = {ours: values[theirs] for theirs, ours in _SAME.items()}
    return {**fields, "pattern": _ATTENTIONS[values["attention_type"]]}


def values_to(config: BigBirdConfig) -> dict[str, Any]:
    """See `EncoderFamily`."""
    if config.num_globals:
        raise ValueError(
            f"num_globals is {config.num_globals}, but transformers' BigBird has "
            "no global tokens in front of its blocks; keep this model here"
        )
    theirs = {ours: name for name, ours in _ATTENTIONS.items()}
    same = {key: getattr(config, field) for key, field in _SAME.items()}
    return {**same, "attention_type": theirs[config.pattern]}


EXCHANGE = exchange_of(
    BigBirdConfig,
    EncoderFamily(
        "BigBird",
        ("bert.",),
        MLM,
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
        fields_from=fields_from,
        values_to=values_to,
    ),
    tokenizer_class="BigBirdTokenizer",
)
