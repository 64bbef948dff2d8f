"""A job for the training loop from a task and readers of its batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data import digests
from etc_jax.data.bytes import stream as byte_stream
from etc_jax.data.schema import Schema
from etc_jax.data.text.reader import RowBuilder
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.workers import ahead
from etc_jax.objectives.jobs import pretraining_data, run_tokenizer
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


def module_of(kind: str, config: Config) -> type:
    """The Linen class of the model that an objective trains, registered as `kind`.

    Raises:
      ValueError: if the model's family has none.
    """
    if problem := registry.problem(kind, config.family):
        raise ValueError(
            f"objective {config.objective.name} does not train model.family: {problem}"
        )
    return registry.lookup(kind, config.family)


def readers_of(config: Config, folder: epath.Path) -> Readers:
    """What the objective reads of the source, registered as "reader".

    The name is that of the objective, and what the source gives: "masked_lm/text".
    """
    name = f"{config.objective.name}/{config.data.gives}"
    return registry.lookup("reader", name)(config, folder)


def of_bytes(config: Config, folder: epath.Path) -> Readers:
    """The first part of a stream of bytes to learn from, the second one to evaluate.

    Raises:
      ValueError: if there is too little of it.
      OSError: if a file cannot be read.
    """
    del folder
    stream = byte_stream.open_bytes(config.data.paths)
    train, valid, _ = byte_stream.split(stream, config.data.validation_fraction)
    length, rows = config.data.input_length, config.train.batch_size
    reader = byte_stream.ByteReader(
        train, length=length, batch_size=rows, seed=config.train.seed
    )
    scored = config.data.scored_length or length
    evaluation = byte_stream.ByteEvaluation(
        valid, length=length, scored=scored, batch_size=rows
    )
    files = {str(file): file for file in byte_stream.files_of(config.data.paths)}
    inputs = digests.shortened(digests.of_files(files), "bytes")
    steps = evaluation.steps_per_epoch
    return Readers(reader, evaluation, steps, reader.num_examples, inputs)


def tokens_per_step(config: Config, schema: Schema) -> int:
    """Tokens of a training step, padding included."""
    return config.train.batch_size * schema.tokens_per_row(config.data)


def of_text(
    config: Config,
    folder: epath.Path,
    rows_fn: Callable[[Tokenizer], RowBuilder],
    length: int | None = None,
) -> Readers:
    """Documents in rows of one sequence, packed as `data.packing` says.

    Args:
      config: of the run.
      folder: the workdir, where the token cache is made unless `data.cache_dir` is set.
      rows_fn: of the text -> how windows become rows.
      length: tokens of a window; None: `data.input_length`.

    Raises:
      ImportError: if a package of the extra `data` is missing.
      OSError, ValueError: if files cannot be read or do not fit together.
    """
    data, seed = config.data, config.train.seed
    corpora = pretraining_data.prepare(data, folder)
    run_tokenizer.check_starts(config, corpora.tokenizer, folder)
    run_tokenizer.check_rows(corpora.tokenizer, config.model, corpora.ids)
    run_tokenizer.save(corpora.tokenizer, folder)
    rows = rows_fn(corpora.tokenizer)
    length = data.input_length if length is None else length

    reader = functools.partial(
        pretraining_data.in_rows,
        data,
        length=length,
        rows=rows,
        batch_size=config.train.batch_size,
        seed=seed,
    )
    train = reader(corpora.train, mixture=corpora.mixture(seed))
    validation = reader([corpora.validation], evaluation=True)
    pretraining_data.look_at(train)
    pretraining_data.check_validation(validation)
    return Readers(
        train,
        validation,
        validation.steps_per_epoch,
        train.num_examples,
        corpora.inputs,
    )


def eval_batches(reader: Any, steps: int) -> Callable[[np.ndarray], Iterator[Batch]]:
    """`Job.eval_batches` of the first `steps` batches of a reader."""
    return lambda rows: (reader.batch_at(step, rows) for step in range(steps))


def make(
    config: Config,
    task: Any,
    readers: Readers,
    schema: Schema,
    useful_flops: Callable[[Batch], float | None],
) -> Job:
    """The job.

    Args:
      config: of the run.
      task: with `init`, `loss` and `loss_weights`, see `Job`.
      readers: of its batches.
      schema: of its batches.
      useful_flops: see `Job`.
    """
    examples = readers.num_examples
    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        loss_weights=task.loss_weights,
        train_batch=ahead(readers.train, config.data.read_workers).batch_at,
        eval_batches=eval_batches(readers.evaluation, readers.eval_steps),
        tokens_per_step=tokens_per_step(config, schema),
        check_batch=lambda batch: schema.problems(batch, config.model),
        useful_flops=useful_flops,
        steps_per_epoch=examples and examples / config.train.batch_size,
        inputs=readers.inputs,
    )
