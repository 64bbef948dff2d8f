"""A model's setting on a task, sweeps of it, and values in a config's argument."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import ml_collections

from etc_jax import config as config_lib

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


def sweep(setting: FinetuningRecipe, **grid: tuple) -> tuple[FinetuningRecipe, ...]:
    """Every combination of a grid, in its order; the last name changes fastest.

    A config file has the paper's as `get_sweep(arg)`, of the argument of `get_config`.

    Args:
      setting: what the grid leaves out.
      **grid: field of `FinetuningRecipe` -> its values.
    """
    return tuple(
        dataclasses.replace(setting, **dict(zip(grid, values, strict=True)))
        for values in itertools.product(*grid.values())
    )


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
