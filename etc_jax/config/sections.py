"""Declares the sections: their fields, defaults and what each value may be.

`fields` reads any of them from a mapping; `kinds` chooses those that go by a name.
"""

import dataclasses
import math
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from etc_jax.base import registry
from etc_jax.base.rules import Problem, at_least, more_than, number, whole


class Helper(NamedTuple):
    """A model that only helps to train the one of the section `model`.

    The section `objective` has its config in the field NAME, with NAME_family and
    NAME_init_from beside it. Its parameters are left out when the run's model is read;
    see `training.job.HELPERS`.

    Attributes:
      name: of the field.
      family: of the model.
      model: its config.
      init_from: the folder that its parameters start from; None: they are drawn.
      frozen: it is not trained.
      unread: parameters, or the beginnings of their paths, that the folder may have and
        the model has not, such as a pooler.
    """

    name: str
    family: str
    model: Any
    init_from: str | None
    frozen: bool
    unread: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """What is learnt. An objective with options has a class of its own.

    It is registered as `registry.register("objective_config", NAME)`; of a data set, it
    is the `section` of the learner (`objectives.learners.finetuning`).

    Attributes:
      name: under which the objective or the data set is registered.
      reads: what it learns from: see `DataConfig.gives`; (): from anything.
      lengths: those of `LENGTHS` that its batches have; (): what it reads decides.
      hub_task: the Hub of Hugging Face's name of what is learnt, such as "fill-mask";
        None: the Hub has none. That of a data set is its learner's.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    lengths: ClassVar[tuple[str, ...]] = ()
    hub_task: ClassVar[str | None] = None

    name: str = ""

    @property
    def helpers(self) -> tuple[Helper, ...]:
        """The models that only help to train."""
        return ()

    def problems_with(self, data: "DataConfig") -> Iterator[Problem]:
        """(dotted path, message) of what this objective cannot learn from."""
        if self.lengths:
            yield from data.problems_of_rows(self.lengths[0])


@dataclasses.dataclass(frozen=True)
class R3fConfig:
    """Predictions that small changes of the input leave alone (`objectives.r3f`).

    Attributes:
      weight: of the term in the training loss; 0: none.
      noise: size of what is added to the rows of input tokens.
      kind: "uniform", of which `noise` is the bound, or "normal", of which it is the
        standard deviation.
    """

    weight: float = 0.0
    noise: float = 1e-5
    kind: Literal["uniform", "normal"] = "uniform"

    @property
    def reads(self) -> int:
        """How often the training loss has the model read a batch."""
        return 2 if self.weight else 1

    def problems(self) -> Iterator[Problem]:
        yield from at_least(0).problems(self, "weight", "noise")


@dataclasses.dataclass(frozen=True)
class RegularisedConfig(ObjectiveConfig):
    """An objective whose training loss may have the term of R3F.

    Attributes:
      r3f: of the term, which an evaluation leaves out.
    """

    r3f: R3fConfig = R3fConfig()


@dataclasses.dataclass(frozen=True)
class FinetuningConfig(RegularisedConfig):
    """A data set whose learner has no options."""

    reads: ClassVar[tuple[str, ...]] = ("windows",)


# Of the axes that batches may have; each run uses some.
LENGTHS = ("long_length", "global_length", "input_length", "target_length")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where examples come from. A source has a class of its own.

    It is registered as `registry.register("source_config", NAME)`.

    Attributes:
      source: the name.
      gives: what the examples are: "text", "bytes", "windows" or another word; of which
        an objective reads some.
      hint: what else to set, for those who did not know of the source; may be blank.
      vocab_size: ids of the vocabulary, trained or given.
      long_length, global_length: tokens of an example of ETC.
      input_length: tokens of an example in one sequence, of which `global_length` are
        global at most, and of a text that another one is written for.
      target_length: tokens of what is written.
      read_workers: processes that build batches; 0: threads of this one.
    """

    gives: ClassVar[str] = ""
    hint: ClassVar[str] = ""

    source: str = ""
    vocab_size: int = 8192
    long_length: int = 512
    global_length: int = 64
    input_length: int = 512
    target_length: int = 128
    read_workers: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from at_least(1).problems(self, "vocab_size", *LENGTHS)
        yield from at_least(0).problems(self, "read_workers")

    def problems_of_rows(self, field: str) -> Iterator[Problem]:
        """(dotted path, message) of what does not go with rows as long as a field."""
        del field
        return iter(())

    def missing(self) -> Iterator[str]:
        """A message for each path that leads to nothing usable; reads little."""
        return iter(())

    def invented(self, folder: pathlib.Path) -> "DataConfig":
        """Data made in a folder whose batches have the shapes of this; else this."""
        del folder
        return self


@dataclasses.dataclass(frozen=True)
class AdafactorConfig:
    """What only Adafactor has (Shazeer & Stern 2018); the defaults are T5's.

    Attributes:
      decay_rate: update t keeps 1 - t ** -decay_rate of the second moments.
      clipping_threshold: of the root mean square of an update.
      multiply_by_parameter_scale: updates are relative to the size of a parameter.
      min_parameter_scale: in place of a smaller size (eps2 in the paper).
      momentum: share of the last update that is kept; 0: none, which saves its memory.
      min_dim_size_to_factor: matrices with fewer rows or columns keep all squares.
      eps: added to squared gradients (eps1 in the paper).
    """

    decay_rate: float = 0.8
    clipping_threshold: float = 1.0
    multiply_by_parameter_scale: bool = True
    min_parameter_scale: float = 1e-3
    momentum: float = 0.0
    min_dim_size_to_factor: int = 128
    eps: float = 1e-30

    def problems(self) -> Iterator[Problem]:
        yield from at_least(1).problems(
            self, "clipping_threshold", "min_dim_size_to_factor"
        )
        positive = more_than(0)
        yield from positive.problems(self, "decay_rate", "min_parameter_scale", "eps")
        yield from number(0, 1, "[)").problems(self, "momentum")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become updates.

    Attributes:
      name: of the optimizer; see `training/optimizers/optimizer.py`.
      learning_rate: the peak of the schedule.
      b1, b2, eps: decay of the two moments and what is added to the root, of all but
        Adafactor.
      weight_decay: of matrices and tables, times the learning rate.
      clip_norm: largest global norm of the gradient of all that is learnt.
      groups: (pattern, factor) rows: the learning rate of the parameters whose path
        ends so is the factor times that of the run; 0 freezes them. The first row that
        matches counts; see `training/optimizers/groups.py`.
      shard_state: split the optimizer's arrays over mesh axis data too (ZeRO, stage 1):
        less memory, the same updates. May change between a run and its continuation.
      adafactor: fields of that optimizer alone.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    groups: tuple[tuple[str, float], ...] = ()
    shard_state: bool = False
    adafactor: AdafactorConfig = AdafactorConfig()

    def problems(self) -> Iterator[Problem]:
        if problem := registry.problem("optimizer", self.name):
            yield "name", problem
        yield from at_least(0).problems(self, "weight_decay")
        yield from more_than(0).problems(self, "learning_rate", "eps", "clip_norm")
        yield from number(0, 1, "[)").problems(self, "b1", "b2")
        yield from self._group_problems()
        yield from self._unused()

    def _group_problems(self) -> Iterator[Problem]:
        for pattern, factor in self.groups:
            if not factor >= 0:
                yield "groups", f"gives {pattern!r} {factor}; expected 0 or more"
            try:
                re.compile(pattern)
            except re.error as error:
                yield "groups", f"has {pattern!r}, no regular expression: {error}"

    def _unused(self) -> Iterator[Problem]:
        """A value that would be left out in silence."""
        if self.name != "adafactor":
            if self.adafactor != AdafactorConfig():
                yield (
                    "adafactor",
                    f"is changed, but optimizer.name={self.name!r} does not use it; "
                    "choose 'adafactor', or leave the section out",
                )
            return
        for field in ("b1", "b2", "eps"):
            if getattr(self, field) != getattr(OptimizerConfig, field):
                yield (
                    field,
                    f"is {getattr(self, field)}, but 'adafactor' does not use it; set "
                    "optimizer.adafactor.decay_rate, momentum or eps",
                )


# The schedules that have an exponent and an end.
_POLYNOMIALS = ("polynomial", "polynomial_bert")


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves; see `training/optimizers/schedule.py` for the names.

    Attributes:
      name: of the schedule.
      warmup_steps: updates from 0 up to the peak, which is `optimizer.learning_rate`;
        below 1: their share of `train.num_steps`.
      power: exponent of a polynomial schedule.
      end_value: learning rate at the last step of a polynomial schedule.
    """

    name: str = "linear"
    warmup_steps: float = 0.0
    power: float = 1.0
    end_value: float = 0.0

    def warmup(self, num_steps: int) -> int:
        """The updates of the warm-up in a run of `num_steps`."""
        if self.warmup_steps >= 1:
            return int(self.warmup_steps)
        # 100 * 0.29 is 29, which floating point misses by a little.
        return int(num_steps * self.warmup_steps + 1e-6)

    def problems(self) -> Iterator[Problem]:
        if problem := registry.problem("schedule", self.name):
            yield "name", problem
        yield from at_least(0).problems(self, "warmup_steps", "end_value")
        if self.warmup_steps > 1 and self.warmup_steps % 1:
            yield (
                "warmup_steps",
                f"is {self.warmup_steps}; expected whole steps, or a share below 1",
            )
        yield from more_than(0).problems(self, "power")
        if self.name in _POLYNOMIALS:
            return
        for field, unset in (("power", 1.0), ("end_value", 0.0)):
            if getattr(self, field) != unset:
                yield (
                    field,
                    f"is {getattr(self, field)}, but schedule.name={self.name!r} does "
                    f"not use it; choose one of {', '.join(_POLYNOMIALS)}",
                )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long, how often, how much.

    Attributes:
      num_steps: optimizer steps of the whole run; 0: nothing is learnt, and the
        parameters that it begins with are evaluated.
      batch_size: examples of one step, over all devices.
      accumulation_steps: microbatches that a step's batch is cut into, one after the
        other, to save memory. Loss and gradient are those of the whole batch, but what
        compares its rows sees one microbatch: negatives within a batch (CPC,
        retrieval) are those of the microbatch alone.
      seed: of parameters, dropout and data, in [0, 2**32).
      param_dtype: that matrices and tables are stored in; norms, biases and all of the
        optimizer stay in float32. With `model.dtype` it makes the precision policies
        float32 / float32, bfloat16 / float32 and bfloat16 / bfloat16 (computed /
        stored). The last halves what parameters and gradients take, and loses updates
        smaller than 1/512 of a weight: for short runs and little memory.
      log_every_steps: a report of the metrics also follows the last step.
      eval_every_steps: evaluation also follows the last step.
      eval_steps: batches of one evaluation; None: all there are, and 4 of data that
        has no end.
      max_nonfinite_steps: so many bad updates in a row end the run.
      prefetch_batches: batches built ahead.
      compile_cache_dir: XLA's persistent cache, which is code that runs as you; None:
        `compiled` in $ETC_JAX_CACHE_DIR, by default ~/.cache/etc_jax, which you alone
        can write to. Of several machines, one that all share: the first process alone
        writes. Not used with several CPU devices.
      check_batches: batches that are looked at before anything is compiled.
      tensorboard: also write the metrics for TensorBoard (extra `tensorboard`).
      wandb_project: also log the metrics to this project of Weights & Biases (extra
        `wandb`); with WANDB_MODE=offline in the environment, into `workdir/wandb`.
      profile_start_step: updates before the profiler starts; None: no profile.
      profile_steps: updates that it watches; the trace is in `workdir/profile`.
    """

    num_steps: int = 1000
    batch_size: int = 8
    accumulation_steps: int = 1
    seed: int = 0
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    log_every_steps: int = 50
    eval_every_steps: int = 500
    eval_steps: int | None = None
    max_nonfinite_steps: int = 10
    prefetch_batches: int = 2
    compile_cache_dir: str | None = None
    check_batches: int = 8
    tensorboard: bool = False
    wandb_project: str | None = None
    profile_start_step: int | None = None
    profile_steps: int = 3

    @property
    def only_evaluates(self) -> bool:
        """Whether no step is taken."""
        return self.num_steps == 0

    def problems(self) -> Iterator[Problem]:
        yield from at_least(0, "evaluate alone").problems(self, "num_steps")
        yield from at_least(1).problems(
            self,
            "batch_size",
            "accumulation_steps",
            "log_every_steps",
            "eval_every_steps",
            "eval_steps",
            "max_nonfinite_steps",
            "prefetch_batches",
            "check_batches",
            "profile_steps",
        )
        yield from at_least(0).problems(self, "profile_start_step")
        # jax.random.key keeps 32 bits: a larger seed would be another one in silence.
        yield from whole(0, 2**32 - 1).problems(self, "seed")


@dataclasses.dataclass(frozen=True)
class Retention:
    """Which checkpoints stay: one goes when no rule keeps it.

    Attributes:
      keep: so many of the newest stay.
      keep_every_steps: those of its multiples stay for ever; None: no others.
      keep_best: so many of the best stay as well.
      best_metric: what "best" is measured by: a metric of the evaluation at the step of
        the checkpoint.
      best_is: whether lower or higher is better.
    """

    keep: int = 3
    keep_every_steps: int | None = None
    keep_best: int = 0
    best_metric: str = "loss"
    best_is: Literal["lowest", "highest"] = "lowest"

    def metric_in(self, evaluation: Mapping[str, Any]) -> float | None:
        """The metric to rank a checkpoint by, from the evaluation of its step.

        None where the step was not evaluated, or the metric is not finite.
        """
        value = evaluation.get(self.best_metric)
        return value if value is not None and math.isfinite(value) else None

    def dispensable(self, metrics: Mapping[int, float | None]) -> list[int]:
        """The steps that may go, oldest first.

        Args:
          metrics: step -> metric (None: not known) of every finished checkpoint.
        """
        steps = sorted(metrics)
        stay = set(steps[-self.keep :])
        if self.keep_every_steps is not None:
            stay.update(step for step in steps if step % self.keep_every_steps == 0)
        stay.update(self.ranked(metrics)[: self.keep_best])
        return [step for step in steps if step not in stay]

    def ranked(self, metrics: Mapping[Any, float | None]) -> list[Any]:
        """What has a metric, the best first; of equal ones the first by its key.

        Args:
          metrics: key, such as a step -> metric; None: not known.
        """
        sign = 1 if self.best_is == "lowest" else -1
        return sorted(
            (key for key, metric in metrics.items() if metric is not None),
            key=lambda key: (sign * metrics[key], key),
        )


@dataclasses.dataclass(frozen=True)
class CheckpointConfig(Retention):
    """How often the state is saved, which saves stay, and what the first one is.

    Attributes:
      every_steps: a save also follows the last step.
      init_from: a run's folder (its newest checkpoint), the folder of one checkpoint,
        one that `etc-jax convert` wrote, or one of Hugging Face or its name in the
        cache: the parameters start from there, with a fresh optimizer at step 0.
        `etc-jax train` takes the model and its vocabulary from there too (`init_from`).
      init_from_only: parameters, or the beginnings of their paths, that are taken from
        there, such as "encoder"; all others start as without `init_from`. (): all.
      init_from_partial: parameters, or the beginnings of their paths, that are not
        taken from there: they start as without `init_from`, and what the checkpoint
        has under these paths is left. Without them both must have the same.
      init_from_changes: fields of the model that may differ from those of `init_from`,
        although no shape shows it, such as ("attention_window",) where windows grow
        from stage to stage, or "family", with what one of the two alone has. All others
        must agree, but those that their dataclass declares `sized` or `free`
        (`model_fields.py`).
    """

    every_steps: int = 500
    init_from: str | None = None
    init_from_only: tuple[str, ...] = ()
    init_from_partial: tuple[str, ...] = ()
    init_from_changes: tuple[str, ...] = ()

    def most_kept(self, num_steps: int) -> int:
        """How many checkpoints a run of `num_steps` keeps at most."""
        if not num_steps:
            return 1  # of what it begins with
        for_ever = num_steps // self.keep_every_steps if self.keep_every_steps else 0
        return self.keep + self.keep_best + for_ever

    def kept_by(self) -> str:
        """The fields that keep checkpoints, with their values."""
        fields = ("keep", "keep_best", "keep_every_steps")
        set_fields = [f for f in fields if getattr(self, f)]
        return ", ".join(f"checkpoint.{f} = {getattr(self, f)}" for f in set_fields)

    def problems(self) -> Iterator[Problem]:
        yield from at_least(1).problems(self, "every_steps", "keep", "keep_every_steps")
        yield from at_least(0).problems(self, "keep_best")
        every, for_ever = self.every_steps, self.keep_every_steps
        if for_ever is not None and every >= 1 and for_ever % every:
            yield (
                "keep_every_steps",
                f"is {for_ever}, not a multiple of every_steps = {every}: no save "
                f"would be of such a step; use {max(every, for_ever // every * every)}",
            )
        for field in ("init_from_only", "init_from_partial", "init_from_changes"):
            if getattr(self, field) and self.init_from is None:
                yield (
                    field,
                    "is given, but init_from is not; name the checkpoint to start from",
                )
        if self.init_from_only and self.init_from_partial:
            yield "init_from_partial", "and init_from_only exclude each other"
