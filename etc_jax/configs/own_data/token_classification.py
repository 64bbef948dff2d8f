"""An encoder learns the tags of words of one's own: CoNLL's columns or JSON lines.

    etc-jax prepare --task=token_classification --format=sequence \
        --tokenizer=models/bert --input_length=512 --global_length=1 \
        --out=prepared train.conll
    etc-jax train --workdir=runs/names \
        --config=token_classification:prepared=prepared,from=models/bert,dev=dev.conll

and then, with the tags in all that they write,

    etc-jax evaluate --model=runs/names --out=runs/names/test test.conll
    etc-jax predict --model=runs/names --html=names.html new.conll

What is said after the colon is as in `--config=classification`, without
class_weights: prepared, dev, validation, from, epochs; bert, longformer or another
family, etc reading --format=structured; tiny. The best checkpoint is that of
the highest F1 of entities, or of the highest accuracy of plain tags.

3 epochs, batches of 32 and a peak of 5e-5 with a warm-up of a tenth are usual values
for models of the base size on sentences, and no result of a search; whole documents are
fewer, and want more epochs.
"""

from etc_jax import recipes
from etc_jax.recipes import prepared as prepared_recipes

SETTING = recipes.FinetuningRecipe(
    "token_classification",
    num_examples=14_000,
    epochs=3,
    batch_size=32,
    learning_rate=5e-5,
    optimizer="adamw",
)
TINY_STEPS = 200


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    made = prepared_recipes.config_of_texts(arg, SETTING, tiny_steps=TINY_STEPS)
    return made.config
