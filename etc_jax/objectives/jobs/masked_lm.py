"""Training on masked tokens as a job for the training loop: bytes, or text in tokens.

The model is of any family that registers a "masked_lm_model" (`masked_lm.MaskedModel`).
"""

from __future__ import annotations

import math
from typing import Any

from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data.bytes import masked as masked_bytes
from etc_jax.data.pretraining.masking import MaskingShares, mlm_capacity
from etc_jax.data.text.packed import MASKED, MaskedRows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.objectives.jobs import readers as reader_job
from etc_jax.objectives.jobs.readers import Readers
from etc_jax.objectives.masked_lm import MODELS, MaskedLm
from etc_jax.training.job import Job

OBJECTIVE = "masked_lm"


@registry.register("reader", f"{OBJECTIVE}/bytes")
def _of_bytes(config: Config, folder: epath.Path) -> Readers:
    _check_bytes(config)
    data, readers = config.data, reader_job.of_bytes(config, folder)
    masked, masked_evaluation = (
        masked_bytes.MaskedBytes(
            windows,
            batch_size=config.train.batch_size,
            seed=config.train.seed,
            # Bytes are chosen one by one: there is always room.
            capacity=data.mlm_capacity or math.ceil(data.mlm_share * data.input_length),
            shares=MaskingShares(mlm=data.mlm_share),
        )
        for windows in (readers.train, readers.evaluation)
    )
    return readers._replace(train=masked, evaluation=masked_evaluation)


def _check_bytes(config: Config) -> None:
    rows, least = config.model.vocab_size, masked_bytes.BYTE_MASK + 1
    if rows < least:
        raise ValueError(
            f"model.vocab_size is {rows}, but the mask of bytes has the id "
            f"{masked_bytes.BYTE_MASK}; raise it to {least} or more"
        )


def _check_room(config: Config) -> None:
    capacity, length = config.data.mlm_capacity, config.data.input_length
    if capacity is not None and capacity > length:
        raise ValueError(
            f"data.mlm_capacity is {capacity}, but a row has data.input_length = "
            f"{length} tokens; lower it, or leave it at None"
        )


@registry.register("reader", f"{OBJECTIVE}/text")
def _of_text(config: Config, folder: epath.Path) -> Readers:
    data = config.data
    capacity = data.mlm_capacity or mlm_capacity(data.input_length, data.mlm_share)

    def rows(tokenizer: Tokenizer) -> MaskedRows:
        shares = MaskingShares(mlm=data.mlm_share)
        sizes = {"length": data.input_length, "capacity": capacity}
        return MaskedRows(tokenizer.token_ids, **sizes, shares=shares)

    return reader_job.of_text(config, folder, rows)


@registry.register("objective", OBJECTIVE)
def make_job(config: Config, folder: epath.Path) -> Job:
    """Masked tokens of bytes, or of text; see `training.job.MakeJob`."""
    task = _task(config)
    _check_room(config)
    readers = reader_job.readers_of(config, folder)

    def flops(batch: dict[str, Any]) -> float | None:
        rows = SequenceInputs(batch["example_ids"])
        masked = batch["mlm_weights"].sum()
        return useful_flops.of_step(
            config.model, config.family, rows, masked_logits=masked
        )

    return reader_job.make(config, task, readers, MASKED, flops)


def _task(config: Config) -> MaskedLm:
    model, module = config.model, reader_job.module_of(MODELS, config)
    if getattr(model, "causal", False):
        raise ValueError(
            f"objective {OBJECTIVE} trains a model that sees both sides, got "
            "model.causal=True; set it to False"
        )
    return MaskedLm(model, module)
