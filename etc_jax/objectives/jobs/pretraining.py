"""Pre-training of ETC as a job for the training loop: data, evaluation, report."""

from typing import Any

import numpy as np
from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data.pretraining.examples import WITH_CPC, WITHOUT_CPC
from etc_jax.data.pretraining.pool import cpc_pool
from etc_jax.data.pretraining.readers import PackedText
from etc_jax.data.text.statistics import log_frequencies, unigram_entropy
from etc_jax.data.tokenizers.tokenizer import TokenIds
from etc_jax.data.workers import ahead
from etc_jax.models.etc.config import EtcConfig
from etc_jax.objectives.batch_checks import wrong_structure
from etc_jax.objectives.cpc_evaluation import pool_metrics
from etc_jax.objectives.jobs import run_tokenizer
from etc_jax.objectives.jobs.pretraining_data import (
    Examples,
    look_at,
    prepare,
)
from etc_jax.objectives.jobs.readers import eval_batches, tokens_per_step
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.training.job import Job

POOL_SENTENCES = 256
# Of each source, for the frequencies that the MLM head starts from.
COUNTED_TOKENS = 1 << 26


@registry.register("objective", "mlm_cpc")
def make_job(config: Config, folder: epath.Path) -> Job:
    """MLM + CPC, or MLM alone where `objective.cpc_weight` is 0; see `job.MakeJob`."""
    if not isinstance(config.model, EtcConfig):
        raise ValueError(
            f"objective mlm_cpc trains ETC, not {type(config.model).__name__}; "
            "set model.family='etc'"
        )
    corpora = prepare(config.data, folder)
    run_tokenizer.check_starts(config, corpora.tokenizer, folder)
    run_tokenizer.check_rows(corpora.tokenizer, config.model, corpora.ids)
    run_tokenizer.save(corpora.tokenizer, folder)
    examples = Examples(config.data, with_cpc=bool(config.objective.cpc_weight))
    task = Pretraining(config.model, config.objective)
    order = {"batch_size": config.train.batch_size, "seed": config.train.seed}
    train = examples.training_reader(corpora, **order)
    ids = corpora.tokenizer.token_ids
    validation_text = examples.pack(corpora.validation)
    validation = examples.validation_reader(validation_text, ids, **order)
    look_at(train)
    # Of the ids in the first tokens of every source.
    tokens = np.concatenate([cache.tokens[:COUNTED_TOKENS] for cache in corpora.train])
    frequencies = log_frequencies(tokens, config.model.vocab_size)

    return Job(
        init_params=lambda rng: task.init(rng, frequencies),
        loss_fn=task.loss,
        train_batch=ahead(train, config.data.read_workers).batch_at,
        eval_batches=eval_batches(validation, validation.steps_per_epoch),
        tokens_per_step=tokens_per_step(config, train.schema),
        check_batch=lambda batch: check_batch(batch, config.model),
        final_report=_make_report(config, validation_text, ids, examples, task),
        steps_per_epoch=train.num_examples
        and train.num_examples / config.train.batch_size,
        inputs=corpora.inputs,
        loss_weights=task.loss_weights,
        useful_flops=task.useful_flops,
    )


def _make_report(
    config, validation: PackedText, ids: TokenIds, examples: Examples, task
):
    """The metrics of a finished run. The pool is chosen here, so that validation text
    that is too small for it is an error before training."""
    pool = None
    if config.data.global_tokens == "sentences":
        pool = cpc_pool(
            *validation,
            ids,
            examples.pool_sizes,
            batch_size=config.train.batch_size,
            count=POOL_SENTENCES,
            shares=examples.pool_shares,
        )

    def report(params) -> dict[str, Any]:
        metrics = {"unigram_entropy": unigram_entropy(validation[0].tokens)}
        if pool is not None:
            metrics |= pool_metrics(task.summaries, params, pool)
        return metrics

    return report


def check_batch(batch: dict[str, Any], model: EtcConfig) -> list[str]:
    """What is wrong with a batch, one message each."""
    with_cpc = "cpc_positions" in batch
    schema = WITH_CPC if with_cpc else WITHOUT_CPC
    if problems := schema.problems(batch, model):
        return problems
    names = ("structure", "cpc_structure") if with_cpc else ("structure",)
    return [m for name in names for m in wrong_structure(batch, name, model)]
