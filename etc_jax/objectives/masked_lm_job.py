"""Training on masked tokens as a job for the training loop: bytes, or text in tokens.

The model is of any family that registers a "masked_lm_model" (`masked_lm.MaskedModel`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from etils import epath

from etc_jax import registry
from etc_jax.config import Config
from etc_jax.data import byte_stream, masked_rows
from etc_jax.data.masking import MaskingShares
from etc_jax.data.workers import ahead
from etc_jax.objectives import inputs, pretraining_data, run_tokenizer
from etc_jax.objectives.batch_checks import missing_entries, wrong_ids, wrong_places
from etc_jax.objectives.masked_lm import MaskedLm
from etc_jax.structure import MAX_GLOBALS
from etc_jax.training.job import Job

OBJECTIVE = "masked_lm"
MODELS = "masked_lm_model"


class _Data(NamedTuple):
    """Where batches come from.

    Attributes:
      train: a reader.
      evaluation: another one.
      eval_steps: its batches.
      num_examples: of an epoch of training.
    """

    train: Any
    evaluation: Any
    eval_steps: int
    num_examples: int


def _of_bytes(config: Config, folder: epath.Path) -> _Data:
    del folder
    data, size = config.data, config.train.batch_size
    _check_bytes(config)
    train, valid, _ = byte_stream.split(
        byte_stream.open_bytes(data.paths), data.held_back_fraction
    )
    reader = byte_stream.ByteReader(
        train, length=data.long_length, batch_size=size, seed=config.train.seed
    )
    evaluation = byte_stream.ByteEvaluation(
        valid,
        length=data.long_length,
        scored=data.scored_length or data.long_length,
        batch_size=size,
    )
    masked, masked_evaluation = (
        masked_rows.MaskedBytes(
            windows,
            batch_size=size,
            seed=config.train.seed,
            # Bytes are chosen one by one: there is always room.
            capacity=data.mlm_capacity or math.ceil(data.mlm_share * data.long_length),
            shares=MaskingShares(mlm=data.mlm_share),
        )
        for windows in (reader, evaluation)
    )
    return _Data(masked, masked_evaluation, evaluation.steps, reader.num_examples)


def _check_bytes(config: Config) -> None:
    rows, least = config.model.vocab_size, masked_rows.BYTE_MASK + 1
    if rows < least:
        raise ValueError(
            f"model.vocab_size is {rows}, but the mask of bytes has the id "
            f"{masked_rows.BYTE_MASK}; raise it to {least} or more"
        )
    capacity, length = config.data.mlm_capacity, config.data.long_length
    if capacity is not None and capacity > length:
        raise ValueError(
            f"data.mlm_capacity is {capacity}, but a row has data.long_length = "
            f"{length} tokens; lower it, or leave it at None"
        )


def _of_text(config: Config, folder: epath.Path) -> _Data:
    """Documents packed side by side, as for ETC, but for what is global there."""
    flat = dataclasses.replace(
        config.data,
        global_tokens="fixed_blocks",
        # One block for each piece of a document, and as many as there may be pieces.
        tokens_per_block=config.data.long_length,
        global_length=min(config.data.long_length, MAX_GLOBALS),
    )
    corpora = pretraining_data.prepare(flat, folder)
    if config.checkpoint.init_from is not None:
        run_tokenizer.check_same(config.checkpoint.init_from, corpora.tokenizer)
    run_tokenizer.save(corpora.tokenizer, folder)
    without_cpc = dataclasses.replace(config.objective, cpc_weight=0.0)
    examples = pretraining_data.Examples(flat, without_cpc)
    order = {"batch_size": config.train.batch_size, "seed": config.train.seed}
    train = examples.training_reader(corpora, **order)
    held_back = examples.held_back_reader(
        examples.pack(corpora.held_back), corpora.tokenizer.token_ids, **order
    )
    pretraining_data.look_at(train)
    return _Data(
        masked_rows.MaskedTokens(train),
        masked_rows.MaskedTokens(held_back),
        held_back.steps_per_epoch,
        sum(counts.windows for counts in train.source_counts),
    )


SOURCES: dict[str, Callable[[Config, epath.Path], _Data]] = {
    "bytes": _of_bytes,
    "builtin": _of_text,
    "text": _of_text,
    "jsonl": _of_text,
    "cache": _of_text,
}


@registry.register("objective_inputs", OBJECTIVE)
def missing_inputs(config: Config) -> Iterable[str]:
    """See `inputs.missing_inputs`; files of bytes are looked at as they are opened."""
    return () if config.data.source == "bytes" else inputs.missing_inputs(config)


@registry.register("objective", OBJECTIVE)
def make_job(config: Config, folder: epath.Path) -> Job:
    """Masked tokens of bytes, or of text.

    Args:
      config: of the run.
      folder: the workdir, where the token cache of a text is made unless
        `data.cache_dir` is set.

    Raises:
      ValueError: if the model or the data is not for this.
      OSError: if a file cannot be read.
    """
    task = _task(config)
    data = SOURCES[config.data.source](config, folder)

    def eval_batches(rows):
        return (data.evaluation.batch_at(i, rows) for i in range(data.eval_steps))

    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        train_batch=ahead(data.train, config.data.read_workers).batch_at,
        eval_batches=eval_batches,
        tokens_per_step=config.train.batch_size * config.data.long_length,
        check_batch=lambda batch: check_batch(batch, config.model),
        steps_per_epoch=data.num_examples / config.train.batch_size,
    )


def _task(config: Config) -> MaskedLm:
    model = config.model
    known = list(registry.names(MODELS))
    if config.family not in known:
        raise ValueError(
            f"objective {OBJECTIVE} has no model of family {config.family!r}; expected "
            f"model.family to be one of {', '.join(known)}"
        )
    if getattr(model, "causal", False):
        raise ValueError(
            f"objective {OBJECTIVE} trains a model that sees both sides, got "
            "model.causal=True; set it to False"
        )
    return MaskedLm(model, registry.lookup(MODELS, config.family))


def check_batch(batch: dict[str, Any], model: Any) -> list[str]:
    """What is wrong with a batch, one message each; see `batch_checks`."""
    names = ("tokens", "targets")
    needed = (*names, "example_ids", "positions", "weights", "overflow")
    if missing := missing_entries(batch, needed):
        return missing
    remedy = "tokenizer and config differ"
    return [
        *wrong_ids(batch, names, model, "vocab_size", remedy),
        *wrong_places(batch, "positions", "tokens"),
    ]
