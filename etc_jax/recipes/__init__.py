"""What the configs share: a paper's models and settings, and its sweeps as data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import ml_collections

from etc_jax import config as config_lib
from etc_jax.models.encoder.config import LongformerConfig, RobertaConfig
from etc_jax.models.etc import config as etc_config
from etc_jax.models.etc.config import EtcConfig

# Of the updates; the default of ETC's official code.
WARMUP_SHARE = 0.1
# What fine-tuning takes from a model of each family. Checkpoints of encoders of one
# sequence may have a pooler, which the heads of a Longformer do not read.
ENCODER = ("encoder",)
ENCODER_WITHOUT_POOLER = ("encoder/embeddings", "encoder/stack")


def encoder_parts(model: Any) -> tuple[str, ...]:
    """What the labels of a text are learnt on top of: BERT's pooler is part of it."""
    reads_pooler = getattr(model, "label_activation", None) is None
    return ENCODER if reads_pooler else ENCODER_WITHOUT_POOLER


@dataclasses.dataclass(frozen=True)
class FinetuningRecipe:
    """One setting of a model on a task; values are as its paper and code say.

    Attributes:
      task: name of the objective.
      num_examples: inputs of the training set, those that cannot be trained on left
        out.
      epochs: passes over them.
      batch_size: examples of a step.
      learning_rate: the peak.
      optimizer: "adamw_bert" or "lamb_bert", the official forms of ETC; "adamw".
      warmup_steps: updates up to the peak, or their share of all.
      seed: of the run.
    """

    task: str
    num_examples: int
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adamw_bert"
    warmup_steps: float = WARMUP_SHARE
    seed: int = 0

    def fields(self) -> dict[str, Any]:
        """{dotted path: value} of the config's fields that a setting decides."""
        num_steps = max(1, int(self.num_examples / self.batch_size * self.epochs))
        return {
            "optimizer.name": self.optimizer,
            "optimizer.learning_rate": self.learning_rate,
            "train.batch_size": self.batch_size,
            "train.num_steps": num_steps,
            "train.seed": self.seed,
            "schedule.warmup_steps": self.warmup_steps,
        }

    def config(
        self,
        model: Any,
        *,
        family: str = "etc",
        **lengths: int,
    ) -> ml_collections.ConfigDict:
        """The config of the run.

        Args:
          model: of the encoder, a dataclass.
          family: that registered the model.
          **lengths: of an input, by their names in the section `data`.
        """
        config = config_lib.default_config(family)
        config.model.update(dataclasses.asdict(model))
        config.objective.name = self.task
        config.data.update(
            source="windows",
            vocab_size=model.vocab_size,
            **lengths,
        )
        config.schedule.name = "polynomial_bert"
        config.update_from_flattened_dict(self.fields())
        config.train.update(log_every_steps=100, eval_every_steps=500)
        start = ENCODER if family == "etc" else ENCODER_WITHOUT_POOLER
        config.checkpoint.update(
            every_steps=500, keep=1, init_from_only=start, keep_best=1
        )
        return config


def scale_down(config: ml_collections.ConfigDict, num_steps: int) -> None:
    """Changes a config to a run of a small model from nothing, on a laptop.

    Args:
      config: of `FinetuningRecipe.config`.
      num_steps: of the run, a multiple of 4.
    """
    config.optimizer.learning_rate = 1e-3
    config.schedule.update(name="linear", warmup_steps=50)
    config.train.update(
        num_steps=num_steps,
        batch_size=16,
        log_every_steps=50,
        eval_every_steps=num_steps // 4,
    )
    config.checkpoint.update(every_steps=num_steps // 4, init_from_only=())


# Of any family: a model for a laptop, which trains in a minute.
TINY_MODEL = {
    "embed_dim": 32,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 64,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "initializer_range": 0.1,
}
TINY_STEPS = 80
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
    # The radius of the paper's "2x local radius" is that of the large model.
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


def sweep(setting: FinetuningRecipe, **grid: tuple) -> Iterator[FinetuningRecipe]:
    """Every combination of a grid, in its order; the last name changes fastest.

    Args:
      setting: what the grid leaves out.
      **grid: field of `FinetuningRecipe` -> its values.
    """
    for values in itertools.product(*grid.values()):
        yield dataclasses.replace(setting, **dict(zip(grid, values, strict=True)))


def given_values(
    arg: str, *allowed: str, renamed: Mapping[str, str] | None = None
) -> tuple[str, dict[str, str]]:
    """The values in the argument of a config file, such as `windows=10`, taken out.

    Args:
      arg: names joined by commas, some of which may be NAME=VALUE.
      *allowed: names that may have a value.
      renamed: names of earlier versions -> those of today.

    Returns:
      (the other names, {name: value}).

    Raises:
      ValueError: if a name is not known, is given twice, or has no value.
    """
    names, values = [], {}
    for text in arg.split(",") if arg else []:
        name, sign, value = text.partition("=")
        if not sign:
            names.append(text)
            continue
        name = (renamed or {}).get(name, name)
        if name not in allowed or name in values or not value:
            raise ValueError(
                f"{text!r} in {arg!r}; expected one value each of "
                f"{', '.join(f'{x}=' for x in allowed)}, and no comma in it"
            )
        values[name] = value
    return ",".join(names), values


def given_windows(arg: str, setting: FinetuningRecipe) -> tuple[str, FinetuningRecipe]:
    """The number of inputs that the argument of a config file gives, taken out of it.

    How many windows there are of long articles, only preparing them shows.

    Args:
      arg: names joined by commas, one of which may be `windows=NUMBER`.
      setting: whose `num_examples` the number is.

    Returns:
      (the other names, the setting with the number).

    Raises:
      ValueError: if it is no whole number above 0, or given twice.
    """
    names, values = given_values(arg, "windows")
    if not values:
        return names, setting
    number = positive("windows", values["windows"], "those `etc-jax prepare` counted")
    return names, dataclasses.replace(setting, num_examples=number)


def positive(name: str, text: str, meaning: str) -> int:
    """A number in the argument of a config file.

    Raises:
      ValueError: if it is no whole number above 0.
    """
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{name}={text}; expected one whole number above 0, {meaning}")
    return int(text)
