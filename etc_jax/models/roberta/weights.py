"""RoBERTa as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import whole
from etc_jax.models.encoder.hf_config import EncoderFamily, config_from_hf
from etc_jax.models.encoder.weights import exchange_of
from etc_jax.models.roberta.config import RobertaConfig

MLM = (("lm_head.layer_norm.", "mlm.norm."), ("lm_head.", "mlm."))
PAD = {"pad_token_id": 1}


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `EncoderFamily`."""
    pad = values["pad_token_id"]
    # Positions are counted from the id of padding, which is the table's own pad.
    return {"pad_id": pad, "max_length": values["max_position_embeddings"] - pad - 1}


def values_to(config: RobertaConfig) -> dict[str, Any]:
    """See `EncoderFamily`."""
    return {"pad_token_id": config.pad_id}


EXCHANGE = exchange_of(
    RobertaConfig,
    EncoderFamily(
        "Roberta",
        ("roberta.",),
        MLM,
        defaults=PAD,
        rules={"pad_token_id": whole()},
        fields_from=fields_from,
        values_to=values_to,
    ),
    tokenizer_class="RobertaTokenizer",
)


def _as_roberta(values: Mapping[str, Any]) -> Any:
    return config_from_hf({**values, "model_type": "roberta"})


# An XLM-RoBERTa is a RoBERTa with a tokenizer of another kind, and is written as one.
registry.register("hugging_face", "xlm-roberta")(
    EXCHANGE._replace(
        config_class=None,
        config_from=_as_roberta,
        tokenizer_class="XLMRobertaTokenizer",
    )
)
