"""ETC as its paper has it: the models, their ablations, pre-training and two tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import ml_collections

from etc_jax import config as config_lib
from etc_jax.models.etc import config as etc_config
from etc_jax.models.etc.config import EtcConfig
from etc_jax.recipes.finetuning import (
    ENCODER,
    TINY_MODEL,
    TINY_STEPS,
    WARMUP_SHARE,
    FinetuningRecipe,
    scale_down,
)

# Of the built-in text, which gives 22,863 pieces at most.
TINY_VOCAB_SIZE = 4096
# Of a structured input.
_TINY_LENGTHS = {"long_length": 512, "global_length": 128}
# Variants of every config of ETC.
ETC_STARTS = ("from_scratch", "tiny")


def etc_started(
    config: ml_collections.ConfigDict, chosen: Collection[str]
) -> ml_collections.ConfigDict:
    """The config with those of `ETC_STARTS` that are chosen.

    Args:
      config: of an ETC; it is changed.
      chosen: variants: "from_scratch" begins with no model; "tiny" is a small model
        from nothing for inputs of 512 long and 128 global tokens at most, to see that
        everything works.
    """
    if "from_scratch" in chosen:
        config.checkpoint.init_from_only = ()
    if "tiny" in chosen:
        config.model.update(TINY_MODEL, dtype="float32", remat_policy="none")
        for name, length in _TINY_LENGTHS.items():
            config.data[name] = min(length, config.data[name])
        scale_down(config, num_steps=TINY_STEPS)
        config.schedule.warmup_steps = config.train.log_every_steps = TINY_STEPS // 10
    return config


# Ablations of ETC that are fields of its model (ETC paper, tables 2 to 4).
ETC_ABLATIONS = ("shared", "no_hard_g2l", "2x_radius", "2x_vocab")
# Those of its pre-training.
ETC_PRETRAINING = (*ETC_ABLATIONS, "no_cpc", "fixed_blocks", "2x_pretraining")
# Global tokens for so many long ones in pre-training and Natural Questions (section
# 4.1).
ETC_GLOBAL_LENGTHS = {"512": 128, "4096": 230, "8192": 460}
ETC_STEPS = 63_000
# Masked tokens whose logits are computed at once: less memory, the same loss.
ETC_LOGITS_CHUNK_LENGTH = 128
# Peaks: from nothing (section 4.1), and from the weights of RoBERTa (appendix C).
FROM_NOTHING, LIFTED = 8**0.5 * 1e-3, 2e-3


def etc_base(chosen: Collection[str]) -> EtcConfig:
    """ETC-base in bfloat16, with those of `ETC_ABLATIONS` that are chosen."""
    # "2x local radius" (table 2) doubles 84, and the paper gives no number: 169, that
    # of its large model, doubles the blocks of radius + 1 tokens, from 85 to 170.
    changes = _ablated(chosen, radius=169, max_distance=24, num_labels=64)
    return etc_config.base(**changes, dtype="bfloat16", remat_policy="attention")


def etc_large(
    chosen: Collection[str], *, vocab_size: int, remat_policy: str = "full"
) -> EtcConfig:
    """ETC-large in bfloat16; the paper has no ablations of it."""
    changes = _ablated(chosen, radius=338, max_distance=48, num_labels=104)
    sizes = {"vocab_size": vocab_size, "remat_policy": remat_policy}
    return etc_config.large(**changes, **sizes, dtype="bfloat16")


def _ablated(chosen: Collection[str], *, radius: int, **labels: int) -> dict[str, Any]:
    """Fields of the model."""
    shared = "shared" in chosen
    changes = {"share_qkv": shared, "share_out": shared}
    changes["hard_g2l"] = "no_hard_g2l" not in chosen
    if "2x_radius" in chosen:
        changes["radius"] = radius
    return changes | (labels if "2x_vocab" in chosen else {})


def etc_pretraining(
    model: EtcConfig,
    chosen: Collection[str],
    *,
    tokens_per_step: int,
    lifted: bool,
) -> ml_collections.ConfigDict:
    """The config of pre-training with MLM + CPC (ETC paper, sections 3.5, 4.1, app. C).

    Args:
      model: of `etc_base` or `etc_large`.
      chosen: of `ETC_PRETRAINING`, `ETC_GLOBAL_LENGTHS` and "tiny", which learns the
        built-in text in a vocabulary of its own.
      tokens_per_step: the rows of a batch follow from them.
      lifted: the encoder starts from `checkpoint.init_from`, which must then be given.
    """
    length = next((x for x in ETC_GLOBAL_LENGTHS if x in chosen), "4096")
    config = config_lib.default_config()
    config.model.update(dataclasses.asdict(model))
    config.model.logits_chunk_length = ETC_LOGITS_CHUNK_LENGTH
    config.data.update(
        source="jsonl",
        vocab_size=model.vocab_size,
        long_length=int(length),
        global_length=ETC_GLOBAL_LENGTHS[length],
        validation_fraction=0.001,
    )
    config.optimizer.update(
        name="lamb_bert", learning_rate=LIFTED if lifted else FROM_NOTHING
    )
    config.train.update(
        num_steps=ETC_STEPS * (2 if "2x_pretraining" in chosen else 1),
        batch_size=tokens_per_step // int(length),
        log_every_steps=100,
        eval_every_steps=1000,
        eval_steps=8,
    )
    config.schedule.update(name="linear", warmup_steps=WARMUP_SHARE)
    config.checkpoint.every_steps = 1000
    if lifted:
        config.checkpoint.init_from_only = ENCODER
    if "fixed_blocks" in chosen:
        config.data.global_tokens = "fixed_blocks"
    if {"no_cpc", "fixed_blocks"} & set(chosen):
        config.objective.update(mlm_weight=1.0, cpc_weight=0.0)
    if "tiny" in chosen:
        config.data.update(
            source="builtin", vocab_size=TINY_VOCAB_SIZE, validation_fraction=0.05
        )
        config.model.vocab_size = TINY_VOCAB_SIZE
    return etc_started(config, chosen)


# Of the ablation without sentences (table 2); in OpenKP the paper does not give it.
TOKENS_PER_BLOCK = 97


def etc_nq(
    setting: FinetuningRecipe, model: EtcConfig, chosen: Collection[str]
) -> ml_collections.ConfigDict:
    """The config of an ETC on Natural Questions.

    Args:
      setting: of the run.
      model: of the encoder.
      chosen: variants; those that are read are of `ETC_GLOBAL_LENGTHS`, "fixed_blocks"
        and `ETC_STARTS`.
    """
    length = next((x for x in ETC_GLOBAL_LENGTHS if x in chosen), "4096")
    blocks = "fixed_blocks" in chosen
    config = setting.config(
        model,
        long_length=int(length),
        global_length=_blocks(int(length)) if blocks else ETC_GLOBAL_LENGTHS[length],
    )
    config.checkpoint.update(best_metric="official_average-f1", best_is="highest")
    return _with_blocks(config, chosen)


def etc_openkp(
    setting: FinetuningRecipe, model: EtcConfig, chosen: Collection[str]
) -> ml_collections.ConfigDict:
    """The config of an ETC on OpenKP.

    Args:
      setting: of the run.
      model: of the encoder.
      chosen: variants; those that are read are "512", "no_visual", "fixed_blocks" and
        `ETC_STARTS`.
    """
    length, blocks = 512 if "512" in chosen else 4096, "fixed_blocks" in chosen
    config = setting.config(
        model,
        long_length=length,
        global_length=_blocks(length) if blocks else 512,
    )
    config.checkpoint.update(best_metric="official_F1@3", best_is="highest")
    config.objective.visual_features = not blocks and "no_visual" not in chosen
    return _with_blocks(config, chosen)


def _blocks(length: int) -> int:
    return -(-length // TOKENS_PER_BLOCK)


def _with_blocks(config: ml_collections.ConfigDict, chosen: Collection[str]):
    if "fixed_blocks" in chosen:
        config.data.input_options = (f"tokens_per_block={TOKENS_PER_BLOCK}",)
    return etc_started(config, chosen)
