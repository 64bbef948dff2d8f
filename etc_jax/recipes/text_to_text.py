"""An encoder-decoder on a data set of texts: the data set is named, the rest a table.

A config file has a table of `WritingRecipe`s by data set, and its `get_config` calls
`choose` and `config_of`. They know, of the argument,

    prepared=FOLDER  of `etc-jax prepare`, to learn from: the steps of an epoch, the
                     lengths and the vocabulary are its own
    dev=FILE         raw, with answers: each evaluation writes its texts and scores
                     them, and the best checkpoint is that of the best score
    validation=FOLDER prepared in the same way, for the loss of evaluations; without it
                     they give the loss of what is learnt
    from=FOLDER      the model to begin with: `checkpoint.init_from`
    epochs=N         passes over the inputs
    short            4 layers of 128, from random weights: for a laptop
    tiny             short, for 20 steps: to see that everything works

Of a data set that is read without `prepare` see `PAIRS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import ml_collections

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.pairs import PairOptions
from etc_jax.datasets.task import Task, find_task
from etc_jax.formats.text_to_text import end_id
from etc_jax.models.family import sizes
from etc_jax.recipes import prepared
from etc_jax.recipes.finetuning import FinetuningRecipe, given_values, positive

FORMAT = "text_to_text"
# One's own texts: prepared, and scored by the metric that was chosen there.
OWN = "text_to_text"
# The same as JSON lines, without `prepare`: evaluations give the loss alone.
PAIRS = "pairs"
SMALL = ("short", "tiny")
# Sizes of a model for a laptop.
SHORT = {
    "embed_dim": 128,
    "num_heads": 4,
    "mlp_dim": 256,
    "num_layers": 4,
    "num_decoder_layers": 4,
    "max_length": 512,
}
# What a short model of a family has besides.
SHORT_TOO = {
    "led": {"attention_window": (64,), "max_target_length": 128},
    "t5": {"head_dim": 32},
    "long_t5": {"head_dim": 32, "radius": 31},
    "bart_ls": {
        "max_length": 1024,
        "max_target_length": 128,
        "block_size": 128,
        "pooling_layers": 2,
    },
}
# Tokens of an input, places of its prefix, and tokens of a block there.
SHORT_LENGTH, SHORT_PREFIX, SHORT_BLOCK = 1024, 16, 128
EVALUATIONS = 10
_NEED_CACHE = ("dev", "validation", "epochs")


@dataclasses.dataclass(frozen=True)
class WritingRecipe(FinetuningRecipe):
    """One setting of an encoder-decoder on a data set of text to text.

    Attributes:
      optimizer: "adamw" or "adafactor".
      dropout_rate: of the model.
      input_length, target_length: tokens of an input and its target.
      reading: how a pair becomes tokens; see there.
      generation: how an evaluation writes: (field of `GenerationConfig`, value) rows.
    """

    optimizer: str = "adamw"
    dropout_rate: float = 0.1
    input_length: int = 16_384
    target_length: int = 128
    reading: PairOptions = PairOptions()
    generation: tuple[tuple[str, Any], ...] = ()

    def fields(self) -> dict[str, Any]:
        """See `FinetuningRecipe`."""
        return {**super().fields(), "model.dropout_rate": self.dropout_rate}


def by_name(**settings: WritingRecipe) -> dict[str, WritingRecipe]:
    """Settings by their data sets, whose names they get."""
    return {k: dataclasses.replace(x, task=k) for k, x in settings.items()}


class Chosen(NamedTuple):
    """What the argument of a config file says.

    Attributes:
      setting: of the data set, with the inputs that there are.
      variants: the other names.
      values: those that have one, by name.
      cache: the prepared folder; None without one.
      task: the data set with the options of the cache; None without one.
    """

    setting: WritingRecipe
    variants: set[str]
    values: dict[str, str]
    cache: WindowCache | None
    task: Task | None

    @property
    def short(self) -> bool:
        """A model for a laptop."""
        return bool(self.variants & {*SMALL})

    def model(self, size: str) -> tuple[str, Any]:
        """(family, config) of a model, such as "bart_base", or of its short form."""
        model = sizes()[size]
        family = registry.name_of("model_config", type(model))
        changes = {"logits_chunk_length": 512, "remat_policy": "full"}
        if self.short:
            changes |= SHORT | SHORT_TOO.get(family, {}) | {"remat_policy": "none"}
        else:
            changes["dtype"] = "bfloat16"
        return family, dataclasses.replace(model, **changes)


def choose(
    arg: str,
    settings: Mapping[str, WritingRecipe],
    *groups: tuple[str, ...],
    flags: tuple[str, ...] = (),
    changed: Callable[[WritingRecipe, set[str]], WritingRecipe] = lambda x, _: x,
) -> Chosen:
    """What an argument of `get_config` chooses; see the module.

    Args:
      arg: names joined by commas, some of which are NAME=VALUE.
      settings: by the name of a data set, `OWN` among them, which is meant where no
        name is given.
      *groups: of variants, of each of which one may be given.
      flags: variants that go with everything.
      changed: (setting, variants) -> the setting of these variants.

    Raises:
      ValueError: if a name or value is not known, or the folder was prepared otherwise.
      OSError: if a folder is not there.
    """
    names, values = given_values(arg, "prepared", "from", *_NEED_CACHE)
    data_sets = (*settings, PAIRS)
    variants = config_lib.variants(names, data_sets, SMALL, *groups, flags=flags)
    name = next(iter(variants & {*data_sets}), OWN)
    setting = changed(settings.get(name, settings[OWN]), variants)
    if "prepared" in values:
        if name == PAIRS:
            raise ValueError(
                f"the variant {PAIRS} reads JSON lines; name them in data.paths, and "
                "leave prepared= out"
            )
        return _prepared(name, setting, variants, values)
    if alone := values.keys() & {*_NEED_CACHE}:
        raise ValueError(f"{', '.join(sorted(alone))}= needs prepared=FOLDER beside it")
    if variants & {*SMALL}:
        setting = dataclasses.replace(
            _small(setting, variants),
            input_length=min(SHORT_LENGTH, setting.input_length),
            reading=dataclasses.replace(
                setting.reading,
                prefix_length=min(SHORT_PREFIX, setting.reading.prefix_length),
                prefix_every=min(SHORT_BLOCK, setting.reading.prefix_every),
            ),
        )
    return Chosen(setting, variants, values, None, None)


def _small(setting: WritingRecipe, variants: Collection[str]) -> WritingRecipe:
    """1,000 steps of 16 inputs, or of `tiny` 20 of 4."""
    inputs, batch = (80, 4) if "tiny" in variants else (16_000, 16)
    return dataclasses.replace(
        setting,
        num_examples=inputs,
        epochs=1,
        batch_size=batch,
        learning_rate=1e-3,
        warmup_steps=0.1,
    )


def _prepared(
    name: str, setting: WritingRecipe, variants: set[str], values: dict[str, str]
) -> Chosen:
    """What is chosen, with the inputs of a folder."""
    cache = WindowCache.open(values["prepared"])
    if (cache.task, cache.format) != (name, FORMAT):
        raise ValueError(
            f"{cache.path} holds inputs of {cache.task!r} in format {cache.format!r}, "
            f"but the config is of {name!r} in format {FORMAT!r}; name the data set in "
            f"the config, or prepare the files with --task={name} --format={FORMAT}"
        )
    task = find_task(name, FORMAT).with_texts(cache.input_options)
    want = dataclasses.asdict(setting.reading)
    read = {field: getattr(task.options, field) for field in want}
    small = variants & {*SMALL}
    # A vocabulary for a laptop may have no first token; of one's own texts, prefixes
    # may be of any length.
    checked = () if small else ("begin_token",) if name == OWN else want
    if any(read[field] != want[field] for field in checked):
        raise ValueError(
            f"{cache.path} was prepared with {_flags(read)}, but this config reads "
            f"inputs of {_flags(want)}; prepare the files again"
        )
    if small:
        setting = _small(setting, variants)
    else:
        setting = dataclasses.replace(setting, num_examples=cache.num_windows)
    if "epochs" in values:
        epochs = positive("epochs", values["epochs"], "passes over the inputs")
        setting = dataclasses.replace(setting, epochs=epochs)
    lengths = {cache.schema.lengths[axis]: n for axis, n in cache.sizes.items()}
    setting = dataclasses.replace(setting, reading=PairOptions(**read), **lengths)
    return Chosen(setting, variants, values, cache, task)


def _flags(values: Mapping[str, Any]) -> str:
    """As flags of `etc-jax prepare`."""
    flags = [f"--{k}" + ("" if x is True else f"={x}") for k, x in values.items() if x]
    return " ".join(flags) or "neither --begin_token nor --prefix_length"


def config_of(
    chosen: Chosen, family: str, model: Any, **optimizer: float
) -> ml_collections.ConfigDict:
    """The config of a run: down to 0 in a line, evaluated ten times, the best kept.

    Args:
      chosen: of `choose`.
      family: that registered the model.
      model: its config, with what it reads inputs by, such as windows.
      **optimizer: fields of that section.
    """
    setting = chosen.setting
    longest = (setting.input_length, model.longest_input)
    targets = (setting.target_length, model.longest_target)
    if PAIRS in chosen.variants:
        config = config_lib.default_config(family, objective="seq2seq", source=PAIRS)
        config.objective.packed = False
        config.data.update(dataclasses.asdict(setting.reading))
    else:
        config = config_lib.default_config(family, objective=OWN, source="windows")
        config.objective.name = setting.task
        config.objective.generation.update(dict(setting.generation))
        options = dataclasses.asdict(setting.reading).items()
        options = tuple(f"{k}={str(x).lower()}" for k, x in options if x)
        config.data.update(format=FORMAT, input_options=options)
    config.model.update(dataclasses.asdict(model))
    config.data.update(
        vocab_size=model.vocab_size,
        input_length=min(x for x in longest if x is not None),
        target_length=min(x for x in targets if x is not None),
    )
    fields = setting.fields()
    config.update_from_flattened_dict(fields)
    config.optimizer.update(optimizer)
    config.schedule.name = "linear"
    every = max(1, fields["train.num_steps"] // EVALUATIONS)
    config.train.update(log_every_steps=min(every, 50), eval_every_steps=every)
    config.checkpoint.update(every_steps=every, keep=1, keep_best=1)
    if "from" in chosen.values:
        config.checkpoint.init_from = chosen.values["from"]
    if chosen.cache is not None:
        _take_data(config, chosen)
    return config


def _take_data(config: ml_collections.ConfigDict, chosen: Chosen) -> None:
    """Takes over what the prepared inputs decide of a config."""
    values, cache = chosen.values, chosen.cache
    prepared.take_data(config, cache, values, chosen.task)
    config.data.vocab_size = cache.header["vocab_size"]
    if "from" not in values:
        of_vocabulary = _of_vocabulary(cache.load_tokenizer(), chosen.setting)
        config.model.update(
            {k: x for k, x in of_vocabulary.items() if k in config.model}
        )


def _of_vocabulary(tokenizer: Tokenizer, setting: WritingRecipe) -> dict[str, Any]:
    """Fields of a model that begins with random weights."""
    end, pad = end_id(tokenizer), tokenizer.special_id("pad")
    begins = setting.reading.begin_token
    return {
        "vocab_size": tokenizer.vocab_size,
        "pad_id": pad,
        "eos_id": end,
        "decoder_start_id": end if begins else pad,
        "forced_bos_id": tokenizer.special_id("cls") if begins else None,
        "forced_eos_id": end,
    }
