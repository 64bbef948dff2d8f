"""Configs that learn a prepared folder of one's own data, whatever the data set.

A config file has a docstring and a `SETTING`, and its `get_config` calls
`config_of_variants`, which knows these:

    prepared=FOLDER  of `etc-jax prepare`, to learn from
    dev=FILE         raw, with answers: each evaluation scores it, and the best
                     checkpoint is that of the best score
    validation=FOLDER prepared in the same way, for the loss of evaluations; without it
                     they give the loss of what is learnt
    from=FOLDER      a model of any kind: its family and sizes
    epochs=N         passes over the inputs
    bert, longformer, etc, ...
                     the family, in its base size, where no model is begun with: those
                     whose models read one sequence, and etc, which reads
                     --format=structured
    tiny             a small model from nothing, to see that everything works
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_collections

from etc_jax import config as config_lib, recipes
from etc_jax.base import registry
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import Task, find_task
from etc_jax.loading import model_source

ETC, SIZES = "etc", "model_sizes"
# Of any family: those of its fields that it has.
TINY = recipes.TINY_MODEL | {
    "num_types": 16,
    "radius": 16,
    "max_distance": 12,
    "num_labels": 32,
    "attention_window": (32,),
    "block_size": 16,
}
# Of texts, where there is no prepared folder.
LENGTHS = {"input_length": 512, "global_length": 1}
ETC_LENGTHS = {"long_length": 512, "global_length": 64}
EVALUATIONS = 10
_NEED_CACHE = ("dev", "validation")


class PreparedConfig(NamedTuple):
    """A config, and what it was made of.

    Attributes:
      config: of the run.
      values: those of the argument, by name.
      cache: the prepared folder; None without one.
      task: the data set with the options of the cache; None without one.
    """

    config: ml_collections.ConfigDict
    values: dict[str, str]
    cache: WindowCache | None
    task: Task | None


def config_of_variants(
    arg: str,
    setting_of: Callable[[Task | None], recipes.FinetuningRecipe],
    *,
    lengths: Mapping[str, int],
    etc_lengths: Mapping[str, int] | None = None,
    reads_pooler: bool = False,
    more: tuple[str, ...] = (),
    tiny_steps: int = recipes.TINY_STEPS,
) -> PreparedConfig:
    """The config of some variants; see the module.

    Args:
      arg: of `get_config`.
      setting_of: the data set with the options of the cache, None without one -> the
        setting; the number of inputs is that of the cache.
      lengths: of an input where there is no cache.
      etc_lengths: the same of structured inputs; None: the data set has none.
      reads_pooler: the head reads BERT's pooler, where the family has one.
      more: further names of values, which need a cache.
      tiny_steps: of the variant `tiny`.

    Raises:
      ValueError: if a variant or value is not known, or does not go with the others.
      OSError: if a folder is not there.
    """
    names, values = recipes.given_values(
        *(arg, "prepared", "dev", "validation", "from", "epochs", *more),
        renamed={"held_back": "validation"},
    )
    base = _base_sizes()
    if etc_lengths is None:
        del base[ETC]
    chosen = config_lib.variants(names, tuple(base), ("tiny",))
    cache = WindowCache.open(values["prepared"]) if "prepared" in values else None
    if cache is None and (alone := values.keys() & {*_NEED_CACHE, *more}):
        raise ValueError(f"{', '.join(sorted(alone))}= needs prepared=FOLDER beside it")
    family, model = _model(chosen, values.get("from"), cache)
    task, lengths = None, (etc_lengths or {}) if family == ETC else lengths
    if cache is not None:
        task = find_task(cache.task, cache.format).with_texts(cache.input_options)
        lengths = {cache.schema.lengths[axis]: n for axis, n in cache.sizes.items()}
    setting = _of_values(setting_of(task), cache, values)
    config = setting.config(model, family=family, **lengths)
    every = max(1, config.train.num_steps // EVALUATIONS)
    config.train.update(log_every_steps=every, eval_every_steps=every)
    config.checkpoint.every_steps = every
    config.schedule.name = "linear"
    if "from" not in values:
        config.checkpoint.init_from_only = ()
    else:
        config.checkpoint.init_from = values["from"]
        if reads_pooler:
            config.checkpoint.init_from_only = recipes.encoder_parts(model)
    if "tiny" in chosen:
        recipes.scale_down(config, num_steps=tiny_steps)
        config.schedule.warmup_steps = tiny_steps // 10
    if cache is not None:
        take_data(config, cache, values, task)
    return PreparedConfig(config, values, cache, task)


def config_of_texts(
    arg: str,
    setting: recipes.FinetuningRecipe,
    *,
    more: tuple[str, ...] = (),
    tiny_steps: int = recipes.TINY_STEPS,
) -> PreparedConfig:
    """The same of texts for which one setting serves; its head reads the pooler.

    Args:
      arg: of `get_config`.
      setting: of the run.
      more: see `config_of_variants`.
      tiny_steps: see `config_of_variants`.
    """
    return config_of_variants(
        arg,
        lambda task: setting,
        lengths=LENGTHS,
        etc_lengths=ETC_LENGTHS,
        reads_pooler=True,
        more=more,
        tiny_steps=tiny_steps,
    )


def _base_sizes() -> dict[str, Any]:
    """Family -> its base size, of all that heads can be put on."""
    names = [*registry.names("encoder_body"), ETC]
    sized = {name: registry.lookup(SIZES, name) for name in registry.names(SIZES)}
    return {
        name: sized[name]["base"] for name in names if "base" in sized.get(name, {})
    }


def _model(chosen: set[str], start: str | None, cache: WindowCache | None):
    """(family, model) of a folder, or of the variants."""
    base = _base_sizes()
    family = next((name for name in base if name in chosen), "bert")
    if start is not None:
        if chosen:
            raise ValueError(
                f"from={start} says which model it is; leave {', '.join(chosen)} out"
            )
        config = model_source.find(start, named="from=").config
        return native.family_of(config), config
    fields = {field.name for field in dataclasses.fields(base[family])}
    changes: dict[str, Any] = TINY if "tiny" in chosen else {}
    changes = {name: value for name, value in changes.items() if name in fields}
    if cache is not None:
        changes["vocab_size"] = cache.header["vocab_size"]
    return family, dataclasses.replace(base[family], **changes)


def _of_values(
    setting: recipes.FinetuningRecipe,
    cache: WindowCache | None,
    values: Mapping[str, str],
) -> recipes.FinetuningRecipe:
    """A setting with the inputs of the cache and the epochs that are asked for."""
    if cache is not None:
        setting = dataclasses.replace(setting, num_examples=cache.num_windows)
    if "epochs" in values:
        epochs = recipes.positive("epochs", values["epochs"], "passes over the inputs")
        setting = dataclasses.replace(setting, epochs=epochs)
    return setting


def take_data(
    config: ml_collections.ConfigDict,
    cache: WindowCache,
    values: Mapping[str, str],
    task: Task,
) -> None:
    """Takes over what the prepared inputs decide of a config.

    Args:
      config: of the run.
      cache: the prepared folder.
      values: of the argument, by name: prepared, and validation and dev if given.
      task: the data set with the options of the cache.
    """
    config.data.update(
        paths=(values["prepared"],),
        validation_paths=(values.get("validation", values["prepared"]),),
        validation_files=(values["dev"],) if "dev" in values else (),
        input_options=cache.input_options,
        format=cache.format,
    )
    if "dev" in values:
        config.checkpoint.update(
            best_metric=f"official_{task.metric}", best_is="highest"
        )
