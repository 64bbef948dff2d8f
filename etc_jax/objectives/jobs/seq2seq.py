"""Training of an encoder-decoder on one's own pairs of texts, as a job.

The model is of any family that registers a "seq2seq_model" (`seq2seq.Seq2SeqModel`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data import digests
from etc_jax.data.source_configs import PairsConfig
from etc_jax.data.text.pairs import SCHEMA, PairReader
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import pair_cache
from etc_jax.datasets.pairs import PairOptions
from etc_jax.formats import text_to_text
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.objectives.jobs import readers as reader_job, run_tokenizer
from etc_jax.objectives.jobs.pretraining_data import check_size
from etc_jax.objectives.jobs.readers import Readers
from etc_jax.objectives.seq2seq import MODELS, Seq2Seq
from etc_jax.training.job import Job
from etc_jax.training.workdir import data_folder

_LOG = logging.getLogger(__name__)
OBJECTIVE = "seq2seq"
_SIDES = {"training": "paths", "held-back": "validation_paths"}


@registry.register("reader", f"{OBJECTIVE}/pairs")
def _of_pairs(config: Config, folder: epath.Path) -> Readers:
    data = config.data
    tokenizer = open_tokenizer(data.tokenizer, lower_case=data.lower_case)
    check_size(data, tokenizer)
    check_end(config, tokenizer)
    run_tokenizer.check_starts(config, tokenizer, folder)
    caches = {
        side: pair_cache.prepared(
            data.files(field),
            tokenizer,
            data_folder(data.cache_dir, folder),
            PairOptions(data.begin_token, data.prefix_length, data.prefix_every),
            workers=data.export_cluster or data.export_workers,
        )
        for side, field in _SIDES.items()
    }
    files = _files_of(data, caches)
    for cache in caches.values():
        run_tokenizer.check_rows(tokenizer, config.model, cache.ids)
    run_tokenizer.save(tokenizer, folder)
    train, evaluation = (_reader(config, *item) for item in caches.items())
    inputs = {f"{side} pairs": cache.digest for side, cache in caches.items()}
    return Readers(
        train,
        evaluation,
        evaluation.steps_per_epoch,
        train.num_examples,
        {"tokenizer": tokenizer.fingerprint(), **inputs, **files},
    )


def _reader(config: Config, side: str, cache: WindowCache) -> PairReader:
    reader = PairReader(
        cache,
        lengths=SCHEMA.lengths_of(config.data),
        batch_size=config.train.batch_size,
        seed=config.train.seed,
        packed=config.objective.packed,
        global_tokens=config.objective.global_tokens,
        evaluation=side == "held-back",
    )
    _LOG.info("%s pairs: %s", side, reader.plan.report())
    _check_cut(config.data, side, cache, reader)
    return reader


def check_end(config: Config, tokenizer: Tokenizer) -> None:
    """Raises ValueError unless the model ends texts as the vocabulary does."""
    end, expected = text_to_text.end_id(tokenizer), config.model.eos_id
    if end != expected:
        [piece] = tokenizer.pieces([end])
        raise ValueError(
            f"data.tokenizer ends a text with {piece!r}, id {end}, but model.eos_id is "
            f"{expected}: the model would never learn to stop; set model.eos_id={end}, "
            "or name the vocabulary of the model"
        )


def _files_of(data: PairsConfig, caches: Mapping[str, WindowCache]) -> dict[str, str]:
    """The digests of the files, which have been read to find the caches.

    Raises:
      ValueError: if a file is on both sides.
    """
    digests_of: dict[str, dict[str, str]] = {}
    for side, field in _SIDES.items():
        described = caches[side].header["made_by"]["files"]
        paths = map(str, data.files(field))
        digests_of[side] = {
            p: sha for p, (*_, sha) in zip(paths, described, strict=True)
        }
    train, validation = digests_of.values()
    if both := [path for path, sha in validation.items() if sha in train.values()]:
        raise ValueError(
            f"{len(both)} of data.validation_paths are training files too, such as "
            f"{both[0]}; leave them out on one side"
        )
    return digests.shortened({**train, **validation}, "pairs")


def _check_cut(
    data: PairsConfig, side: str, cache: WindowCache, reader: PairReader
) -> None:
    """Refuses targets of which many would be cut: a model learns to stop too early.

    Raises:
      ValueError: naming the longest target.
    """
    counts = reader.plan.counts["target"]
    share = counts.cut_texts / cache.num_windows
    if share > data.max_cut_targets:
        longest = cache.record_id(reader.plan.longest_target)
        raise ValueError(
            f"{share:.1%} of the {side} targets have more than data.target_length = "
            f"{data.target_length} tokens and would be cut, more than "
            f"data.max_cut_targets = {data.max_cut_targets:.1%}; the longest has "
            f"{counts.longest} tokens ({longest}): raise data.target_length, or "
            "data.max_cut_targets"
        )


@registry.register("objective", OBJECTIVE)
def make_job(config: Config, folder: epath.Path) -> Job:
    """An encoder-decoder on rows of `data.text.pairs`; see `training.job.MakeJob`."""
    task = task_of(config)
    readers = reader_job.readers_of(config, folder)
    flops = functools.partial(flops_of, config)
    return reader_job.make(config, task, readers, SCHEMA, flops)


def flops_of(config: Config, batch: dict[str, Any]) -> float | None:
    """Useful FLOPs of a training step on a batch of `data.text.pairs`."""
    ids = batch["target_example_ids"]
    inputs = SequenceInputs(batch["input_example_ids"], batch.get("global_index"))
    return useful_flops.of_step(
        config.model,
        config.family,
        (inputs, SequenceInputs(ids)),
        reads=config.objective.r3f.reads,
        causal_logits=float(np.sum(ids > 0)),
    )


def task_of(config: Config) -> Seq2Seq:
    """Parameters and loss of the model that the config names.

    Raises:
      ValueError: if its family is none of encoder-decoders.
    """
    module, options = reader_job.module_of(MODELS, config), config.objective
    regularisers = options.label_smoothing, options.z_loss, options.r3f
    return Seq2Seq(config.model, module, *regularisers)
