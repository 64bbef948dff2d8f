"""Training of a language model as a job for the training loop.

The model is of any family that registers a "causal_lm_model" (`causal_lm.CausalModel`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data import digests
from etc_jax.data.bytes import duplication, images as byte_images
from etc_jax.data.text.packed import CAUSAL, CausalRows
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.objectives.jobs import readers as reader_job
from etc_jax.objectives.jobs.readers import Readers
from etc_jax.training.job import Job

OBJECTIVE = "causal_lm"
MODELS = "causal_lm_model"
# Batches of an evaluation whose data has no end, unless `train.eval_steps` says it.
ENDLESS_EVAL_STEPS = 4


@registry.register("reader", f"{OBJECTIVE}/images")
def _of_images(config: Config, folder: epath.Path) -> Readers:
    del folder
    sizes = {"length": config.data.input_length, "batch_size": config.train.batch_size}
    [path], [validation] = config.data.paths, config.data.validation_paths
    train = byte_images.ImageReader(
        byte_images.open_images(path), seed=config.train.seed, **sizes
    )
    evaluation = byte_images.ImageReader(
        byte_images.open_images(validation), evaluation=True, **sizes
    )
    inputs = digests.shortened(
        digests.of_files({path: path, validation: validation}), "images"
    )
    steps = evaluation.steps_per_epoch
    return Readers(train, evaluation, steps, train.num_examples, inputs)


@registry.register("reader", f"{OBJECTIVE}/symbols")
def _of_duplication(config: Config, folder: epath.Path) -> Readers:
    del folder
    train, evaluation = (
        duplication.DuplicationReader(
            length=config.data.input_length,
            num_symbols=config.data.vocab_size,
            batch_size=config.train.batch_size,
            seed=config.train.seed,
            evaluation=flag,
        )
        for flag in (False, True)
    )
    steps = config.train.eval_steps or ENDLESS_EVAL_STEPS
    return Readers(train, evaluation, steps, None, {})


registry.register("reader", f"{OBJECTIVE}/bytes")(reader_job.of_bytes)


@registry.register("reader", f"{OBJECTIVE}/text")
def _of_text(config: Config, folder: epath.Path) -> Readers:
    length = config.data.input_length
    return reader_job.of_text(
        config,
        folder,
        lambda tokenizer: CausalRows(tokenizer.token_ids, length=length),
    )


@registry.register("objective", OBJECTIVE)
def make_job(config: Config, folder: epath.Path) -> Job:
    """A language model on what the source gives; see `training.job.MakeJob`."""
    task = _task(config)
    readers = reader_job.readers_of(config, folder)

    def flops(batch: dict[str, Any]) -> float | None:
        every = np.ones_like(batch["tokens"])
        rows = SequenceInputs(batch.get("example_ids", every))
        targets = float(batch["target_weights"].sum())
        return useful_flops.of_step(
            config.model, config.family, rows, causal_logits=targets
        )

    return reader_job.make(config, task, readers, CAUSAL, flops)


def _task(config: Config) -> CausalLm:
    model, module = config.model, reader_job.module_of(MODELS, config)
    if not model.causal:
        raise ValueError(
            f"objective {OBJECTIVE} trains a model with model.causal=True, got family "
            f"{config.family!r} with causal=False; set it to True"
        )
    return CausalLm(model, module)
