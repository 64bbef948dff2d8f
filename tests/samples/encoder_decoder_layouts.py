"""Encoder-decoders as programs other than transformers name and save them."""

from __future__ import annotations

import argparse
import re

import numpy as np

from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.hf_config import config_to_hf
from etc_jax.models.led.config import LedConfig

SIZES = {
    "vocab_size": 19,
    "embed_dim": 12,
    "num_heads": 3,
    "num_layers": 4,
    "num_decoder_layers": 2,
    "mlp_dim": 10,
    "max_length": 48,
    "num_decoder_heads": 2,
    "decoder_mlp_dim": 8,
}
LED = LedConfig(**SIZES, max_target_length=31, attention_window=(4, 8))
BART = BartConfig(**SIZES, activation="relu", dropout_rate=0.2)


def as_allenai(params, config: LedConfig) -> dict[str, np.ndarray]:
    """Weights by the names of allenai's code, with rows that nothing reads."""
    found = {}
    for name, array in encoder_decoder.export_hf(params, config).items():
        if name.endswith("embed_positions.weight"):
            unread = np.full((2, array.shape[1]), np.nan, array.dtype)
            array = np.concatenate([unread, array])
        found[name.replace("led.", "model.")] = array
    for side in ("encoder", "decoder"):
        found[f"model.{side}.embed_tokens.weight"] = found["model.shared.weight"]
    return found


def values_of_allenai(config: LedConfig) -> dict:
    """The content of its config.json."""
    values = config_to_hf(config)
    layers = config.num_layers
    return {
        **values,
        "model_type": "bart",
        "architectures": ["LongformerEncoderDecoderForConditionalGeneration"],
        "attention_mode": "sliding_chunks",
        "attention_window": [width // 2 for width in values["attention_window"]],
        "attention_dilation": [1] * layers,
        "attention_probs_dropout_prob": values["attention_dropout"],
        "autoregressive": False,
        "gradient_checkpointing": False,
        "extra_pos_embeddings": 2,
        "normalize_before": False,
        "static_position_embeddings": False,
    }


# What fairseq calls the parts of transformers' BART.
_OF_FAIRSEQ = ((r"^shared\.", "decoder.embed_tokens."),)


def as_fairseq(params, config: BartConfig) -> dict[str, np.ndarray]:
    """Weights by the names of fairseq."""
    found = {}
    for name, array in encoder_decoder.export_named(params, config).items():
        for theirs, ours in _OF_FAIRSEQ:
            name = re.sub(theirs, ours, name)
        found[name] = array
    del found["final_logits_bias"]
    for name in ("encoder.embed_tokens.weight", "decoder.output_projection.weight"):
        found[name] = found["decoder.embed_tokens.weight"]
    for side in ("encoder", "decoder"):
        found[f"{side}.version"] = np.array([3.0], np.float32)
    return found


def settings_of_fairseq(config: BartConfig) -> argparse.Namespace:
    """The settings of the run, as the command line of fairseq gives them."""
    names = {"gelu_exact": "gelu", "gelu": "gelu_accurate", "relu": "relu"}
    return argparse.Namespace(
        arch="bart_large",
        task="denoising",
        encoder_layers=config.num_layers,
        encoder_attention_heads=config.encoder_side.num_heads,
        decoder_attention_heads=config.decoder_side.num_heads,
        activation_fn=names[config.activation],
        no_scale_embedding=not config.scale_embedding,
        encoder_normalize_before=config.pre_norm,
        decoder_normalize_before=config.pre_norm,
        dropout=config.dropout_rate,
        attention_dropout=config.attention_dropout_rate,
        activation_dropout=config.activation_dropout_rate,
        lr=[3e-05],
        data=None,
    )
