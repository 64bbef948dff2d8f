"""The sections of a config: their fields, defaults and what each field may be."""

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Literal

from etc_jax import registry
from etc_jax.config_fields import Problem, at_least, between, suggestion

# The modules that register each kind of name; imported when a name is not known yet.
_PROVIDERS = {
    "model_config": "etc_jax.models",
    "pretraining": "etc_jax.objectives",
    "optimizer": "etc_jax.training.optimizer",
    "schedule": "etc_jax.training.schedule",
}


def registered(kind: str, name: str) -> Iterator[Problem]:
    """The problem of a name that nothing is registered under."""
    if name not in registry.names(kind):
        importlib.import_module(_PROVIDERS[kind])
    known = list(registry.names(kind))
    if name not in known:
        yield "name", f"no {kind} named {name!r}; {suggestion(name, known)}"


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """What is learnt: masked words plus contrastive sentences (paper, section 3.5)."""

    name: str = "mlm_cpc"
    mlm_weight: float = 0.8
    cpc_weight: float = 0.2
    similarity: Literal["cosine", "dot"] = "cosine"

    def problems(self) -> Iterator[Problem]:
        yield from registered("pretraining", self.name)
        yield from at_least(self, 0, "mlm_weight", "cpc_weight")
        if self.mlm_weight == 0 and self.cpc_weight == 0:
            yield "mlm_weight", "and cpc_weight are both 0; nothing would be learnt"


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where examples come from and how large they are.

    Attributes:
      source: name of a text source; "builtin" is the documentation of Python itself.
      cache_dir: folder of the token cache; None puts it into the workdir.
      vocab_size: size of the vocabulary that is trained on the source.
      long_length, global_length: tokens of one example.
      mlm_capacity: places for masked tokens; None: from the lengths.
      cpc_long_length, cpc_global_length: room for masked sentences; None: likewise.
      held_back_fraction: share of the documents that is for evaluation alone.
    """

    source: str = "builtin"
    cache_dir: str | None = None
    vocab_size: int = 8192
    long_length: int = 512
    global_length: int = 64
    mlm_capacity: int | None = None
    cpc_long_length: int | None = None
    cpc_global_length: int | None = None
    held_back_fraction: float = 0.05

    def problems(self) -> Iterator[Problem]:
        yield from at_least(
            self,
            1,
            "vocab_size",
            "long_length",
            "global_length",
            "mlm_capacity",
            "cpc_long_length",
            "cpc_global_length",
        )
        yield from between(self, 0, 1, "held_back_fraction", open_ends=True)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become updates."""

    name: str = "adamw"
    learning_rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    def problems(self) -> Iterator[Problem]:
        yield from registered("optimizer", self.name)
        yield from at_least(self, 0, "weight_decay")
        for field in ("learning_rate", "eps", "clip_norm"):
            if not getattr(self, field) > 0:
                yield field, f"is {getattr(self, field)}; expected more than 0"
        for field in ("b1", "b2"):
            if not 0 <= getattr(self, field) < 1:
                yield field, f"is {getattr(self, field)}; expected 0 <= {field} < 1"


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves; see `training/schedule.py` for the names."""

    name: str = "linear"
    warmup_steps: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from registered("schedule", self.name)
        yield from at_least(self, 0, "warmup_steps")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long, how often, how much.

    Attributes:
      num_steps: optimizer steps of the whole run.
      batch_size: examples of one step, over all devices.
      seed: of parameters, dropout and data, in [0, 2**32).
      eval_every_steps: evaluation also follows the last step.
      eval_steps: batches of one evaluation; None: all there are.
      max_nonfinite_steps: so many bad updates in a row end the run.
      prefetch_batches: batches built ahead.
      compile_cache_dir: XLA's persistent cache; None puts it into the workdir.
    """

    num_steps: int = 1000
    batch_size: int = 8
    seed: int = 0
    log_every_steps: int = 50
    eval_every_steps: int = 500
    eval_steps: int | None = None
    max_nonfinite_steps: int = 10
    prefetch_batches: int = 2
    compile_cache_dir: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from at_least(
            self,
            1,
            "num_steps",
            "batch_size",
            "log_every_steps",
            "eval_every_steps",
            "eval_steps",
            "max_nonfinite_steps",
            "prefetch_batches",
        )
        # jax.random.key keeps 32 bits: a larger seed would be another one in silence.
        if not 0 <= self.seed < 2**32:
            yield "seed", f"is {self.seed}; expected 0 <= seed < 2**32"


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """How often the state is saved, and how many saves stay."""

    every_steps: int = 500
    keep: int = 3

    def problems(self) -> Iterator[Problem]:
        yield from at_least(self, 1, "every_steps", "keep")
