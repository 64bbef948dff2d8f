"""A job for the training loop from a task and readers of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from etc_jax import registry
from etc_jax.config import Config
from etc_jax.data import byte_stream, digests
from etc_jax.data.workers import ahead
from etc_jax.training.job import Batch, Job


class Readers(NamedTuple):
    """Where batches come from.

    Attributes:
      train: a reader.
      evaluation: another one.
      eval_steps: its batches.
      num_examples: of an epoch of training; None if it has no end.
      inputs: digests of what both read; see `Job`.
    """

    train: Any
    evaluation: Any
    eval_steps: int
    num_examples: int | None
    inputs: Mapping[str, str]


def readers_of(objective: str, config: Config, folder: epath.Path) -> Readers:
    """What an objective reads of a source, registered as "reader".

    The name is that of the objective, and what the source gives: "masked_lm/text".
    """
    name = f"{objective}/{config.data.gives}"
    return registry.lookup("reader", name)(config, folder)


def of_bytes(config: Config) -> Readers:
    """The first part of a stream of bytes to learn from, the second one to evaluate.

    Raises:
      ValueError: if there is too little of it.
      OSError: if a file cannot be read.
    """
    stream = byte_stream.open_bytes(config.data.paths)
    train, valid, _ = byte_stream.split(stream, config.data.held_back_fraction)
    length, rows = config.data.long_length, config.train.batch_size
    reader = byte_stream.ByteReader(
        train, length=length, batch_size=rows, seed=config.train.seed
    )
    scored = config.data.scored_length or length
    evaluation = byte_stream.ByteEvaluation(
        valid, length=length, scored=scored, batch_size=rows
    )
    files = {str(file): file for file in byte_stream.files_of(config.data.paths)}
    inputs = digests.shortened(digests.of_files(files), "bytes")
    return Readers(reader, evaluation, evaluation.steps, reader.num_examples, inputs)


def eval_batches(reader: Any, steps: int) -> Callable[[np.ndarray], Iterator[Batch]]:
    """`Job.eval_batches` of the first `steps` batches of a reader."""
    return lambda rows: (reader.batch_at(step, rows) for step in range(steps))


def make(
    config: Config,
    task: Any,
    readers: Readers,
    check_batch: Callable[[Batch], list[str]],
    useful_flops: Callable[[Batch], float | None],
) -> Job:
    """The job.

    Args:
      config: of the run.
      task: with `init` and `loss`, see `Job`.
      readers: of its batches.
      check_batch: see `Job`.
      useful_flops: see `Job`.
    """
    examples = readers.num_examples
    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        train_batch=ahead(readers.train, config.data.read_workers).batch_at,
        eval_batches=eval_batches(readers.evaluation, readers.eval_steps),
        tokens_per_step=config.train.batch_size * config.data.long_length,
        check_batch=check_batch,
        useful_flops=useful_flops,
        steps_per_epoch=examples and examples / config.train.batch_size,
        inputs=readers.inputs,
    )
