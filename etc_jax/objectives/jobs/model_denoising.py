"""Pre-training of an encoder-decoder on the spans that a generator predicts worst."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data.text.candidates import CANDIDATES, MARK, CandidateRows
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.objectives.jobs import (
    denoising as denoising_job,
    readers as reader_job,
    seq2seq as pairs_job,
)
from etc_jax.objectives.jobs.readers import Readers
from etc_jax.objectives.masked_lm import MODELS, MaskedLm
from etc_jax.objectives.model_denoising import ModelDenoising
from etc_jax.objectives.seq2seq import MODELS as SEQ2SEQ_MODELS
from etc_jax.training.job import Job

OBJECTIVE = "model_denoising"


@registry.register("reader", f"{OBJECTIVE}/text")
def _of_text(config: Config, folder: epath.Path) -> Readers:
    asked = config.objective
    rows = functools.partial(
        CandidateRows,
        spans=asked.candidates,
        kept_share=asked.kept_share,
        input_length=config.data.input_length,
    )
    return denoising_job.of_marked_text(config, folder, rows)


@registry.register("objective", OBJECTIVE)
def make_job(config: Config, folder: epath.Path) -> Job:
    """The model and its generator as a job; see `training.job.MakeJob`."""
    # A model that is not for this is refused before the text is read.
    reader_job.module_of(SEQ2SEQ_MODELS, config)
    readers = reader_job.readers_of(config, folder)
    task = task_of(config, readers.train.rows)
    flops = functools.partial(_flops_of, config)
    return reader_job.make(config, task, readers, CANDIDATES, flops)


def task_of(config: Config, rows: CandidateRows) -> ModelDenoising:
    """Parameters and loss of the models that the config names.

    Args:
      config: of the run.
      rows: of its batches.

    Raises:
      ValueError: if the family of the model is none of encoder-decoders.
    """
    asked = config.objective
    module = registry.lookup(MODELS, asked.generator_family)
    return ModelDenoising(
        pairs_job.task_of(config),
        MaskedLm(asked.generator, module),
        asked.generator_weight,
        rows,
        config.data.target_length,
    )


def _flops_of(config: Config, batch: dict[str, Any]) -> float | None:
    """Of both models; a frozen generator has a forward pass alone.

    Which spans are missing is known on the device alone. Their number is known, and the
    first ones are as long as any others on average.
    """
    spans, num_missing = batch["span_ids"], batch["kept_spans"]
    gone = np.sum((spans > 0) & (spans <= num_missing[:, None]), axis=1)
    sizes = {
        "input": np.sum(batch["example_ids"] > 0, axis=1) - gone + num_missing,
        "target": gone + num_missing + np.sum(spans == MARK, axis=1),
    }
    lengths = CANDIDATES.lengths_of(config.data)
    ids = {
        f"{side}_example_ids": np.arange(lengths[side]) < size[:, None]
        for side, size in sizes.items()
    }
    written = pairs_job.flops_of(config, {k: x.astype(int) for k, x in ids.items()})
    asked = config.objective
    generator = useful_flops.of_step(
        asked.generator,
        asked.generator_family,
        SequenceInputs(batch["example_ids"]),
        masked_logits=float(np.sum(spans > 0)),
    )
    if written is None or generator is None:
        return None
    return written + generator / (1 if asked.generator_weight else useful_flops.PASSES)
