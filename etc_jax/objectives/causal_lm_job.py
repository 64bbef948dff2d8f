"""Training of a language model as a job for the training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from etils import epath

from etc_jax import registry
from etc_jax.config import Config
from etc_jax.data import byte_images, byte_stream, duplication
from etc_jax.data.workers import ahead
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.objectives.batch_checks import missing_entries, wrong_ids
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.training.job import Job

# Batches of an evaluation whose data has no end.
ENDLESS_EVAL_STEPS = 4


class _Data(NamedTuple):
    """Where batches come from.

    Attributes:
      train: a reader.
      evaluation: another one.
      eval_steps: its batches.
      num_examples: of an epoch of training; None if it has no end.
    """

    train: Any
    evaluation: Any
    eval_steps: int
    num_examples: int | None


def _of_bytes(config: Config) -> _Data:
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
    return _Data(reader, evaluation, evaluation.steps, reader.num_examples)


def _of_images(config: Config) -> _Data:
    sizes = {"length": config.data.long_length, "batch_size": config.train.batch_size}
    [path], [held_back] = config.data.paths, config.data.held_back_paths
    train = byte_images.ImageReader(
        byte_images.open_images(path), seed=config.train.seed, **sizes
    )
    evaluation = byte_images.ImageReader(
        byte_images.open_images(held_back), evaluation=True, **sizes
    )
    return _Data(train, evaluation, evaluation.steps, train.num_examples)


def _of_duplication(config: Config) -> _Data:
    train, evaluation = (
        duplication.DuplicationReader(
            length=config.data.long_length,
            num_symbols=config.data.vocab_size,
            batch_size=config.train.batch_size,
            seed=config.train.seed,
            evaluation=flag,
        )
        for flag in (False, True)
    )
    return _Data(train, evaluation, ENDLESS_EVAL_STEPS, None)


# Of `config_sections.BYTE_SOURCES`.
SOURCES: dict[str, Callable[[Config], _Data]] = {
    "bytes": _of_bytes,
    "byte_images": _of_images,
    "duplication": _of_duplication,
}


@registry.register("objective", "causal_lm")
def make_job(config: Config, folder: epath.Path) -> Job:
    """A language model on bytes, or on the duplication task.

    Args:
      config: of the run.
      folder: the workdir; nothing is written to it.

    Raises:
      ValueError: if the model or the data is not for this.
      OSError: if a file cannot be read.
    """
    del folder
    model = config.model
    if not isinstance(model, ReformerConfig) or not model.causal:
        raise ValueError(
            "objective causal_lm trains a Reformer with model.causal=True, got family "
            f"{config.family!r} with causal={getattr(model, 'causal', None)}"
        )
    data, task = SOURCES[config.data.source](config), CausalLm(model)

    def eval_batches(rows):
        return (data.evaluation.batch_at(i, rows) for i in range(data.eval_steps))

    per_epoch = data.num_examples and data.num_examples / config.train.batch_size
    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        train_batch=ahead(data.train, config.data.read_workers).batch_at,
        eval_batches=eval_batches,
        tokens_per_step=config.train.batch_size * config.data.long_length,
        check_batch=lambda batch: check_batch(batch, model),
        steps_per_epoch=per_epoch,
    )


def check_batch(batch: dict[str, Any], model: ReformerConfig) -> list[str]:
    """What is wrong with a batch, one message each; see `batch_checks`."""
    names = ["tokens", "targets"]
    if missing := missing_entries(batch, [*names, "weights"]):
        return missing
    remedy = "a byte is its own id: the table needs 256 rows for any file"
    return [*wrong_ids(batch, names, model, "vocab_size", remedy)]
