"""What the training loop knows about a task: a few plain functions."""

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import jax
import numpy as np
from etils import epath

Batch = Any  # a pytree of arrays whose first dimension is the row of the batch
Params = Any
Sums = dict[str, tuple[jax.Array, jax.Array]]
LossFn = Callable[[Params, Batch, jax.Array, bool], Sums]
# `Job.loss_weights` of a loss that is one mean.
MEAN_LOSS: Mapping[str, float] = types.MappingProxyType({"loss": 1.0})
# The error of a job without data for an evaluation.
NO_BATCH = (
    "there is nothing to evaluate on: the job gives no evaluation batch; raise "
    "data.validation_fraction or use more text"
)

# Top level of the parameters of helper models, by name (`config.sections.Helper`).
# What reads a run to start another one, to convert it or to write with it leaves these
# out.
HELPERS = "helpers"


class ValidationScore(Protocol):
    """Metrics that are no means over batches, such as an official one.

    Attributes:
      metric_names: of the metrics.
      inputs: {name: digest} of the files that they are read from; see `Job.inputs`.
    """

    metric_names: tuple[str, ...]
    inputs: Mapping[str, str]

    def __call__(
        self, params: Params, *, should_stop: Callable[[], bool]
    ) -> dict[str, float] | None:
        """The metrics of parameters on the mesh, equal on all processes.

        Args:
          params: on the mesh.
          should_stop: see `training.evaluation.Evaluator`; None is returned then.
        """


@dataclasses.dataclass(frozen=True)
class Job:
    """One task, made by a `MakeJob`.

    Attributes:
      init_params: rng -> parameters; is traced, so it must not touch files.
      loss_fn: (params, batch, rng, deterministic) -> {name: (sum, weight)}, of the
        terms of the loss and of further metrics. Nothing is divided here: with
        `train.accumulation_steps` the batch is a microbatch, and the weights of all of
        them divide; see `training.accumulation`.
      train_batch: (step, rows) -> the numpy rows `rows` of the batch of that step. A
        pure function of its arguments: that is what makes a resumed run exact.
      eval_batches: rows -> the rows `rows` of the batches of one evaluation, always the
        same ones, of as many rows as those of training.
      tokens_per_step: tokens of one training batch, padding included.
      check_batch: what is wrong with a batch, one message each; [] if nothing.
      final_report: params -> metrics of the finished run, as JSON takes them.
      useful_flops: rows of a training batch -> the FLOPs that the model asks for to
        learn from them, see `models.useful_flops`; None: not known, and no MFU is
        reported.
      steps_per_epoch: steps that go once through the data; None if it has no end or
        no length.
      loss_weights: {name: factor} of the terms: the loss is the sum of factor * sum /
        weight, in training over a batch, in an evaluation over all of it, however its
        rows lie in batches. Terms that `loss_fn` has in training alone, such as a
        regulariser, are no part of the loss of an evaluation.
      validation_score: further metrics of parameters, part of each evaluation; its
        `metric_names` are their names.
      inputs: {name: digest} of all that the batches are made of (files, caches, the
        tokenizer), equal for equal contents. They are kept with each checkpoint and
        compared between processes and when a run goes on.
    """

    init_params: Callable[[jax.Array], Params]
    loss_fn: LossFn
    train_batch: Callable[[int, np.ndarray], Batch]
    eval_batches: Callable[[np.ndarray], Iterator[Batch]]
    tokens_per_step: int
    check_batch: Callable[[Batch], list[str]]
    final_report: Callable[[Params], dict[str, Any]] | None = None
    useful_flops: Callable[[Batch], float | None] | None = None
    steps_per_epoch: float | None = None
    loss_weights: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: MEAN_LOSS
    )
    validation_score: ValidationScore | None = None
    inputs: Mapping[str, str] = dataclasses.field(default_factory=dict)


class MakeJob(Protocol):
    """What is registered as "objective"."""

    def __call__(self, config: Any, folder: epath.Path) -> Job:
        """The job of a run.

        Args:
          config: of the run, a `config.Config`.
          folder: the workdir, where the tokenizer of the data is put, and what is made
            of texts or pairs unless `data.cache_dir` is set.

        Raises:
          ValueError: if the model or the data is not for this objective, or the data
            does not fit together or what the run starts from.
          OSError: if a file cannot be read.
          ImportError: if a package that the data needs is missing.
        """
