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

    prepared=FOLDER  of `etc-jax prepare`, to learn from
    dev=FILE         raw, with labels: each evaluation answers it, and the best
                     checkpoint is that of the highest accuracy, or micro F1 where a
                     text has several labels
    validation=FOLDER prepared with the same labels, for the loss of evaluations;
                     without it they give the loss of the texts that are learnt
    from=FOLDER      a model to begin with, of Hugging Face, converted or a run: its
                     family, sizes and vocabulary
    epochs=3         passes over the texts
    class_weights=balanced
                     texts of rare labels count more, so that all labels count alike
    bert, longformer, etc, ...
                     the family, in its base size, where no model is begun with; etc
                     reads --format=structured
    tiny             a small model from nothing, to see that everything works

3 epochs, batches of 32 and a peak of 3e-5 with a warm-up of a tenth are usual values
for models of the base size, and no result of a search.
"""

import numpy as np

from etc_jax import recipes
from etc_jax.data.windows.cache import WindowCache
from etc_jax.recipes import prepared as prepared_recipes

SETTING = recipes.FinetuningRecipe(
    "classification",
    num_examples=10_000,
    epochs=3,
    batch_size=32,
    learning_rate=3e-5,
    optimizer="adamw",
)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    made = prepared_recipes.config_of_texts(arg, SETTING, more=("class_weights",))
    if (weights := made.values.get("class_weights")) is not None:
        if weights != "balanced":
            raise ValueError(f"class_weights={weights}; expected balanced")
        balanced = _balanced(made.cache, len(made.task.classes))
        made.config.objective.class_weights = balanced
    return made.config


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
