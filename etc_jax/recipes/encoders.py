"""A Longformer on a task, or the RoBERTa that it is compared with, large or short."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import ml_collections

from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.recipes.finetuning import FinetuningRecipe, scale_down

# A Longformer for a laptop, that of `--config=longformer_mlm:short`.
SHORT_LONGFORMER = {
    "vocab_size": 8192,
    # Its vocabulary separates two texts as BERT's does.
    "num_types": 2,
    "embed_dim": 128,
    "num_layers": 4,
    "num_heads": 4,
    "mlp_dim": 256,
    "max_length": 512,
    "attention_window": (64,),
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
}
# Those of roberta-large and longformer-large-4096.
_LARGE = {"embed_dim": 1024, "num_layers": 24, "num_heads": 16, "mlp_dim": 4096}
# Longest sequence of the RoBERTa that a Longformer is compared with.
ROBERTA_LENGTH = 512


def longformer(
    setting: FinetuningRecipe,
    chosen: Collection[str],
    *,
    global_length: int,
    short_global_length: int,
    best_metric: str,
    short_steps: int,
    added_tokens: int = 0,
    short_model: Mapping[str, Any] = SHORT_LONGFORMER,
) -> ml_collections.ConfigDict:
    """The config of a Longformer on a task: longformer-base-4096, or a short one.

    At full size the optimizer is Adam with bias correction and the rate goes linearly
    down, as in the authors' scripts; the short one is as it was measured.

    Args:
      setting: of the task.
      chosen: variants; those that are read are "large", "roberta" (512 tokens, without
        windows), "short" and "from_scratch".
      global_length: places of global tokens.
      short_global_length: the same of the short one.
      best_metric: that the best checkpoint is kept by: "loss", or one that is best when
        it is highest.
      short_steps: of the short one.
      added_tokens: by which the vocabulary grew.
      short_model: fields of the short one's `LongformerConfig`.
    """
    short = "short" in chosen
    model = LongformerConfig(**short_model) if short else _whole_longformer(chosen)
    model = dataclasses.replace(model, vocab_size=model.vocab_size + added_tokens)
    if not short:
        setting = dataclasses.replace(setting, optimizer="adamw")
    config = setting.config(
        model,
        input_length=model.max_length,
        global_length=short_global_length if short else global_length,
        family="roberta" if "roberta" in chosen else "longformer",
    )
    config.optimizer.weight_decay = 0.01
    best_is = "lowest" if best_metric == "loss" else "highest"
    config.checkpoint.update(best_metric=best_metric, best_is=best_is)
    if short:
        scale_down(config, num_steps=short_steps)
    else:
        config.schedule.name = "linear"
    if "from_scratch" in chosen:
        config.checkpoint.init_from_only = ()
    return config


def _whole_longformer(chosen: Collection[str]) -> RobertaConfig:
    """longformer-base-4096 or -large-4096, or the RoBERTa of that size."""
    sizes = {"dtype": "bfloat16", "remat_policy": "attention"}
    if "large" in chosen:
        sizes |= _LARGE | {"remat_policy": "full"}
    if "roberta" in chosen:
        return RobertaConfig(**sizes, max_length=ROBERTA_LENGTH)
    return LongformerConfig(**sizes)
