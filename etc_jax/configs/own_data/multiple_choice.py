"""An encoder learns to choose among options: QuALITY, or questions of one's own.

    etc-jax prepare --task=multiple_choice --format=sequence \
        --tokenizer=models/longformer --input_length=4096 --global_length=64 \
        --out=prepared QuALITY.v1.0.1.htmlstripped.train
    etc-jax train --workdir=runs/quality \
        --config=multiple_choice:prepared=prepared,from=models/longformer,dev=QuALITY.v1.0.1.htmlstripped.dev

and then

    etc-jax evaluate --model=runs/quality --out=runs/quality/test \
        QuALITY.v1.0.1.htmlstripped.test

What is said after the colon is as in `--config=classification`, without
class_weights: prepared, dev, validation, from, epochs; bert, longformer or another
family, etc reading --format=structured; tiny. The best checkpoint is that of
the highest accuracy.

A row of a batch is a sequence for each option, so batches are small. 20 epochs, batches
of 16 and a peak of 1e-5 with a warm-up of a tenth are usual values, and no result of a
search.
"""

from etc_jax import recipes
from etc_jax.recipes import prepared as prepared_recipes

SETTING = recipes.FinetuningRecipe(
    "multiple_choice",
    num_examples=2523,
    epochs=20,
    batch_size=16,
    learning_rate=1e-5,
    optimizer="adamw",
)
TINY_STEPS = 400


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    made = prepared_recipes.config_of_texts(arg, SETTING, tiny_steps=TINY_STEPS)
    return made.config
