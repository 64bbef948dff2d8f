"""What the fine-tuning configs share: a paper's settings, and its sweep as data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import ml_collections

from etc_jax import config as config_lib
from etc_jax.models.encoder_config import LongformerConfig

# Of the updates; the official code's default.
WARMUP_SHARE = 0.1
# What fine-tuning takes from a model of each family. Checkpoints of encoders of one
# sequence may have a pooler, which the heads of a Longformer do not read.
ENCODER = ("encoder",)
ENCODER_WITHOUT_POOLER = ("encoder/embeddings", "encoder/stack")


@dataclasses.dataclass(frozen=True)
class Finetuning:
    """One setting of a model on a task; values are as its paper and code say.

    Attributes:
      task: name of the objective.
      num_examples: inputs of the training set, those that cannot be trained on left
        out.
      epochs: passes over them.
      batch_size: examples of a step.
      learning_rate: the peak.
      optimizer: "adamw_bert" or "lamb_bert", the official forms.
      seed: of the run.
    """

    task: str
    num_examples: int
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adamw_bert"
    seed: int = 0

    def fields(self) -> dict[str, Any]:
        """{dotted path: value} of the config's fields that a setting decides."""
        num_steps = int(self.num_examples / self.batch_size * self.epochs)
        return {
            "optimizer.name": self.optimizer,
            "optimizer.learning_rate": self.learning_rate,
            "train.batch_size": self.batch_size,
            "train.num_steps": num_steps,
            "train.seed": self.seed,
            "schedule.warmup_steps": int(WARMUP_SHARE * num_steps),
        }

    def config(
        self,
        model: Any,
        *,
        long_length: int,
        global_length: int,
        family: str = "etc",
    ) -> ml_collections.ConfigDict:
        """The config of the run.

        Args:
          model: of the encoder, a dataclass.
          long_length: long tokens of an input.
          global_length: global tokens of an input.
          family: that registered the model.
        """
        config = config_lib.default_config(family)
        config.model.update(dataclasses.asdict(model))
        config.objective.name = self.task
        config.data.update(
            source="windows",
            vocab_size=model.vocab_size,
            long_length=long_length,
            global_length=global_length,
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
      config: of `Finetuning.config`.
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


# A Longformer for a laptop, that of `configs/longformer_mlm.py:short`.
SHORT_LONGFORMER = {
    "vocab_size": 8192,
    # Its vocabulary tells two texts apart as BERT's does.
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
_LONGFORMER = {"dtype": "bfloat16", "remat_policy": "attention"}


def longformer(
    setting: Finetuning,
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

    Args:
      setting: of the task.
      chosen: variants; those that are read are "short" and "from_scratch".
      global_length: places of global tokens.
      short_global_length: the same of the short one.
      best_metric: that the best checkpoint is kept by: "loss", or one that is best when
        it is highest.
      short_steps: of the short one.
      added_tokens: by which the vocabulary grew.
      short_model: fields of the short one's `LongformerConfig`.
    """
    short = "short" in chosen
    model = LongformerConfig(**(short_model if short else _LONGFORMER))
    model = dataclasses.replace(model, vocab_size=model.vocab_size + added_tokens)
    config = setting.config(
        model,
        long_length=model.max_length,
        global_length=short_global_length if short else global_length,
        family="longformer",
    )
    config.optimizer.weight_decay = 0.01
    best_is = "lowest" if best_metric == "loss" else "highest"
    config.checkpoint.update(best_metric=best_metric, best_is=best_is)
    if short:
        scale_down(config, num_steps=short_steps)
    if "from_scratch" in chosen:
        config.checkpoint.init_from_only = ()
    return config


def sweep(setting: Finetuning, **grid: tuple) -> Iterator[Finetuning]:
    """Every combination of a grid, in its order; the last name changes fastest.

    Args:
      setting: what the grid leaves out.
      **grid: field of `Finetuning` -> its values.
    """
    for values in itertools.product(*grid.values()):
        yield dataclasses.replace(setting, **dict(zip(grid, values, strict=True)))


def given_windows(arg: str, setting: Finetuning) -> tuple[str, Finetuning]:
    """The number of inputs that the argument of a config file tells, taken out of it.

    How many windows there are of long articles, preparing them tells alone.

    Args:
      arg: names joined by commas, one of which may be `windows=NUMBER`.
      setting: whose `num_examples` the number is.

    Returns:
      (the other names, the setting with the number).

    Raises:
      ValueError: if it is no whole number above 0, or given twice.
    """
    mark = "windows="
    names = arg.split(",") if arg else []
    numbers = [name.removeprefix(mark) for name in names if name.startswith(mark)]
    rest = ",".join(name for name in names if not name.startswith(mark))
    if not numbers:
        return rest, setting
    if len(numbers) > 1 or not numbers[0].isdecimal() or int(numbers[0]) == 0:
        raise ValueError(
            f"{arg!r} says {mark}{', '.join(numbers)}; expected one whole number, the "
            "windows that `python -m tasks.prepare` counted"
        )
    return rest, dataclasses.replace(setting, num_examples=int(numbers[0]))
