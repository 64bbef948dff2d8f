"""An encoder learns the labels of texts of one's own: CSV, TSV or JSON lines.

    etc-jax prepare --task=classification --format=sequence \
        --text_column=body --label_column=topic --tokenizer=models/bert \
        --input_length=512 --global_length=1 --out=prepared train.csv
    etc-jax train --workdir=runs/topics \
        --config=classification:prepared=prepared,from=models/bert,dev=dev.csv

and then, with the names of the labels in all that they write,

    etc-jax evaluate --model=runs/topics --out=runs/topics/test test.csv
    etc-jax predict --model=runs/topics new.jsonl

Lengths, labels, vocabulary and the number of texts are those of the prepared folder;
what is said after the colon:

    prepared=FOLDER  of `etc_jax.prepare`, to learn from
    dev=FILE         raw, with labels: each evaluation answers it, and the best
                     checkpoint is that of the highest accuracy, or micro F1 where a
                     text has several labels
    held_back=FOLDER prepared with the same labels, for the loss of evaluations; without
                     it they give the loss of the texts that are learnt
    from=FOLDER      a model to begin with, of Hugging Face, converted or a run: its
                     family, sizes and vocabulary
    epochs=3         passes over the texts
    class_weights=balanced
                     texts of rare labels count more, so that all labels count alike
    bert, roberta, longformer, big_bird, etc
                     the family, in its base size, where no model is begun with; etc
                     reads --format=structured
    tiny             a small model from nothing, to see that everything works

3 epochs, batches of 32 and a peak of 3e-5 with a warm-up of a tenth are usual values
for models of the base size, and no result of a search.
"""

import dataclasses

import numpy as np

from etc_jax import config as config_lib
from etc_jax import model_source, recipes
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import find_task
from etc_jax.models import encoder_config, etc_config

# Without a prepared folder, to look at the config: lengths and a number of texts.
LENGTHS = {"input_length": 512, "global_length": 1}
ETC_LENGTHS = {"long_length": 512, "global_length": 64}
SETTING = recipes.FinetuningRecipe(
    "classification",
    num_examples=10_000,
    epochs=3,
    batch_size=32,
    learning_rate=3e-5,
    optimizer="adamw",
)
FAMILIES = {
    "bert": encoder_config.BertConfig(),
    "roberta": encoder_config.RobertaConfig(),
    "longformer": encoder_config.LongformerConfig(),
    "big_bird": encoder_config.BigBirdConfig(),
    "etc": etc_config.base(),
}
# Of any family: those of its fields that it has.
TINY = {
    "num_types": 16,
    "embed_dim": 32,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 64,
    "radius": 16,
    "max_distance": 12,
    "num_labels": 32,
    "attention_window": (32,),
    "block_size": 16,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "initializer_range": 0.1,
}
TINY_STEPS = 80
EVALUATIONS = 10


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    return prepared_config(arg, SETTING, "class_weights")


def prepared_config(
    arg: str,
    setting: recipes.FinetuningRecipe,
    *more: str,
    tiny_steps: int = TINY_STEPS,
):
    """The config of a run on one's own data in a prepared folder.

    Args:
      arg: variants, as of the module.
      setting: of the run.
      *more: further names that may have a value.
      tiny_steps: of the run of a small model.
    """
    names, given = recipes.given_values(
        arg, "prepared", "dev", "held_back", "from", "epochs", *more
    )
    chosen = config_lib.variants(names, tuple(FAMILIES), ("tiny",))
    cache = WindowCache.open(given["prepared"]) if "prepared" in given else None
    if cache is None and (
        alone := given.keys() & {"dev", "held_back", "class_weights"}
    ):
        raise ValueError(f"{', '.join(sorted(alone))}= needs prepared=FOLDER beside it")
    family, model = _model(chosen, given.get("from"), cache)
    if "epochs" in given:
        setting = dataclasses.replace(setting, epochs=_epochs(given["epochs"]))
    lengths = ETC_LENGTHS if family == "etc" else LENGTHS
    if cache is not None:
        lengths = {cache.schema.lengths[axis]: n for axis, n in cache.sizes.items()}
        setting = dataclasses.replace(setting, num_examples=cache.num_windows)
    config = setting.config(model, family=family, **lengths)
    steps = config.train.num_steps
    every = max(1, steps // EVALUATIONS)
    config.train.update(log_every_steps=every, eval_every_steps=every)
    config.checkpoint.every_steps = every
    config.schedule.name = "linear"
    config.checkpoint.update(
        init_from=given.get("from"),
        init_from_only=recipes.encoder_parts(model) if "from" in given else (),
    )
    if "tiny" in chosen:
        recipes.scale_down(config, num_steps=tiny_steps)
        config.schedule.warmup_steps = tiny_steps // 10
    if cache is not None:
        _take_data(config, cache, given)
    return config


def _model(chosen: set[str], start: str | None, cache: WindowCache | None):
    """(family, model) of a folder, or of the variants."""
    family = next((name for name in FAMILIES if name in chosen), "bert")
    if start is not None:
        if chosen:
            raise ValueError(
                f"from={start} says which model it is; leave {', '.join(chosen)} out"
            )
        config = model_source.find(start, named="from=").config
        return native.family_of(config), config
    fields = {field.name for field in dataclasses.fields(FAMILIES[family])}
    changes = TINY if "tiny" in chosen else {}
    changes = {name: value for name, value in changes.items() if name in fields}
    if cache is not None:
        changes["vocab_size"] = cache.header["vocab_size"]
    return family, dataclasses.replace(FAMILIES[family], **changes)


def _epochs(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"epochs={text}; expected a whole number above 0")
    return int(text)


def _take_data(config, cache: WindowCache, given: dict[str, str]) -> None:
    """What the prepared texts decide of a config."""
    task = find_task(cache.task, cache.format).with_texts(cache.input_options)
    config.data.update(
        paths=(given["prepared"],),
        held_back_paths=(given.get("held_back", given["prepared"]),),
        held_back_files=(given["dev"],) if "dev" in given else (),
        input_options=cache.input_options,
        format=cache.format,
    )
    if "dev" in given:
        config.checkpoint.update(
            best_metric=f"official_{task.measure}", best_is="highest"
        )
    if (weights := given.get("class_weights")) is not None:
        if weights != "balanced":
            raise ValueError(f"class_weights={weights}; expected balanced")
        config.objective.class_weights = _balanced(cache, len(task.classes))


def _balanced(cache: WindowCache, number: int) -> tuple[float, ...]:
    """Weights by which all labels count alike; their mean over the texts is 1."""
    labels = np.asarray(cache.arrays["labels.label"])
    if len(labels) != cache.num_windows:  # sets: a row of 0 and 1 a text
        counts = labels.reshape(cache.num_windows, number).sum(axis=0)
    else:
        counts = np.bincount(labels, minlength=number)
    if not counts.all():
        raise ValueError(
            f"{cache.path} has no text with some of its {number} labels; prepare it "
            "again without --labels, or give no class_weights"
        )
    return tuple((counts.sum() / (number * counts)).round(6).tolist())
