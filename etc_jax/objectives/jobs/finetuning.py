"""Fine-tuning as a job for the training loop."""

from collections.abc import Sequence
from typing import Any

from etils import epath

from etc_jax.base import registry
from etc_jax.base.terminal import in_shell
from etc_jax.config import Config
from etc_jax.data.windows.cache import WindowCache, WindowReader
from etc_jax.data.workers import ahead
from etc_jax.datasets import of_config
from etc_jax.datasets.of_config import format_of
from etc_jax.models import useful_flops
from etc_jax.objectives.jobs import readers as reader_job, run_tokenizer
from etc_jax.objectives.learners import finetuning
from etc_jax.training.job import Job


@registry.register("objective", "data_set")
def make_job(config: Config, folder: epath.Path) -> Job:
    """The data set that the objective names, on caches of `etc-jax prepare`.

    See `training.job.MakeJob`. Caches must fit the config, each other, and what the run
    starts from.
    """
    task = finetuning.of_config(config)
    train, validation = (
        [WindowCache.open(path) for path in paths]
        for paths in (config.data.paths, config.data.validation_paths)
    )
    tokenizer = train[0].load_tokenizer()
    _check_caches(config, [*train, *validation])
    run_tokenizer.check_starts(config, tokenizer, folder)
    for cache in (*train, *validation):
        run_tokenizer.check_rows(tokenizer, config.model, cache.ids)
    run_tokenizer.save(tokenizer, folder)
    reader = _reader(config, train, evaluation=False)
    evaluation = _reader(config, validation, evaluation=True)
    score = None
    if config.data.validation_files:
        if (why := task.why_no_outputs) is not None:
            raise ValueError(f"data.validation_files are to be answered, but {why}")
        score = registry.lookup("validation_score", "official")(config, tokenizer)
    paths = [*config.data.paths, *config.data.validation_paths]
    caches = zip(paths, [*train, *validation], strict=True)

    return Job(
        init_params=task.init,
        loss_fn=task.loss,
        loss_weights=task.loss_weights,
        train_batch=ahead(reader, config.data.read_workers).batch_at,
        eval_batches=reader_job.eval_batches(evaluation, evaluation.steps_per_epoch),
        tokens_per_step=reader_job.tokens_per_step(config, task.schema),
        check_batch=lambda batch: check_batch(batch, task),
        useful_flops=lambda batch: _useful_flops(config, task, batch),
        steps_per_epoch=reader.num_examples / config.train.batch_size,
        validation_score=score,
        inputs={
            "tokenizer": tokenizer.fingerprint(),
            **{f"window cache {path}": cache.digest for path, cache in caches},
        },
    )


def _useful_flops(config: Config, task: finetuning.Learner, batch) -> float | None:
    inputs = task.flops_inputs(batch)
    if inputs is None:
        return None
    reads = config.objective.r3f.reads
    return useful_flops.of_step(config.model, config.family, inputs, reads=reads)


def _reader(config: Config, caches: Sequence[WindowCache], *, evaluation: bool):
    return WindowReader(
        caches,
        lengths=caches[0].schema.lengths_of(config.data),
        batch_size=config.train.batch_size,
        seed=config.train.seed,
        flat=config.data.flat,
        evaluation=evaluation,
    )


def _check_caches(config: Config, caches: Sequence[WindowCache]) -> None:
    for cache in caches:
        if cache.task != config.objective.name:
            raise ValueError(
                f"{cache.path} holds inputs of {cache.task!r}, but objective.name is "
                f"{config.objective.name!r}; name a cache of that task"
            )
        if cache.format != (format := format_of(config)):
            raise ValueError(
                f"{cache.path} holds inputs in format {cache.format!r}, but the run "
                f"reads {format!r}; prepare the files again with --format={format}"
            )
        _check_quirks(config, cache)
        _check_shaping(config, cache)
        size = cache.header["vocab_size"]
        if size != config.data.vocab_size:
            raise ValueError(
                f"{cache.path} was made with a vocabulary of {size} ids, but "
                f"data.vocab_size is {config.data.vocab_size}; set it to that, or "
                "prepare the data with the vocabulary of the model"
            )


def _check_quirks(config: Config, cache: WindowCache) -> None:
    cached, configured = cache.official_quirks, config.data.official_quirks
    if cached != configured:
        flag = "with" if cached else "without"
        raise ValueError(
            f"{cache.path} was prepared {flag} --official_quirks, but "
            f"data.official_quirks is {configured}; set it to {cached}, so that the "
            "model is evaluated on inputs of the same kind"
        )


def _check_shaping(config: Config, cache: WindowCache) -> None:
    """Refuses windows that evaluation, which goes by the config, would make otherwise.

    Options may be left out where they say what holds by default. Lengths may differ
    where they do no more than to cut off the end.

    Raises:
      ValueError: naming the lengths or options that differ, and what to do; or as for
        `task_of`.
    """
    task = of_config.task_of(config)
    sizes = type(task.sizes)
    configured = task.shaping(sizes(*of_config.lengths_of(config)))
    cache_task = of_config.with_options(config, cache.input_options)
    cached = cache_task.shaping(sizes(*cache.sizes.values()))
    both = cached.keys() & configured.keys()
    for name in cache.schema.lengths.values():
        if name in both and cached[name] != configured[name]:
            raise ValueError(
                f"{cache.path} was prepared with --{name}={cached[name]}, but "
                f"data.{name} is {configured[name]}: a record would become other "
                f"windows in evaluation; give --config.data.{name}={cached[name]}, or "
                f"prepare the files again with --{name}={configured[name]}"
            )
    if cached != configured:
        how = ", ".join(cache.input_options) or "the options by default"
        raise ValueError(
            f"{cache.path} was prepared with {how}, but data.input_options is "
            f"{config.data.input_options}; give --config.data.input_options="
            f"{in_shell(str(cache.input_options))}, so that the model is evaluated on "
            "inputs of the same kind, or prepare the files again"
        )


def check_batch(batch: dict[str, Any], task: finetuning.Learner) -> list[str]:
    """What is wrong with a batch, one message each."""
    if missing := [name for name in task.learns_from if name not in batch]:
        return [f"the batch lacks {', '.join(missing)}; it has {', '.join(batch)}"]
    return task.problems(batch)
