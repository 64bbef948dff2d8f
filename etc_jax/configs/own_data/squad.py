"""An encoder answers questions by spans: SQuAD 1.1 and 2.0, or one's own files.

    etc-jax prepare --task=squad --format=sequence --stride=128 \
        --tokenizer=models/bert --out=prepared train-v2.0.json
    etc-jax train --workdir=runs/squad \
        --config=squad:prepared=prepared,from=models/bert,dev=dev-v2.0.json
    etc-jax evaluate --model=runs/squad --out=runs/squad/dev dev-v2.0.json
    etc-jax predict --model=runs/squad --thresholds=runs/squad/dev \
        --html=answers.html questions.jsonl

Files of one's own are CSV, TSV or JSON lines, with the names of their columns:
`--question_column`, `--context_column`, `--answer_column`, `--start_column`. After the
colon:

    prepared=FOLDER  of `etc-jax prepare`, to learn from
    dev=FILE         raw, with answers: each evaluation answers it, and the best
                     checkpoint is that of the highest F1; where questions may have no
                     answer, that of the best threshold
    validation=FOLDER prepared in the same way, for the loss of evaluations; without it
                     they give the loss of what is learnt
    from=FOLDER      a converted model (`etc-jax convert`): its family and sizes
    epochs=3         passes over the inputs
    bert, longformer, etc, ...
                     the family, in its base size, where no model is begun with; etc
                     reads --format=structured
    tiny             a small model from nothing, to see that everything works

Adam, a rate of 5e-5, and 3 epochs in batches of 32, or 2 epochs in batches of 48 where
questions may have no answer, are BERT's (Devlin et al. 2019, sections 4.2 and 4.3); so
are 384 tokens and the stride of 128, in the code of that paper. RoBERTa has 1.5e-5 and
2 epochs in batches of 48, of the large model (Liu et al. 2019, table 10).
"""

import dataclasses

from etc_jax import recipes
from etc_jax.datasets.task import Task
from etc_jax.recipes import prepared as prepared_recipes

# Inputs without a prepared folder: SQuAD 1.1 has 87,599 questions.
LENGTHS = {"input_length": 384, "global_length": 65}
ETC_LENGTHS = {"long_length": 512, "global_length": 128}
SETTING = recipes.FinetuningRecipe(
    "squad",
    num_examples=87_599,
    epochs=3,
    batch_size=32,
    learning_rate=5e-5,
    optimizer="adamw",
)
# Of SQuAD 2.0.
UNANSWERABLE = {"epochs": 2, "batch_size": 48}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    made = prepared_recipes.config_of_variants(
        arg, _setting, lengths=LENGTHS, etc_lengths=ETC_LENGTHS
    )
    if "dev" in made.values and made.task.options.unanswerable:
        made.config.checkpoint.best_metric = "official_best_f1"
    return made.config


def _setting(task: Task | None) -> recipes.FinetuningRecipe:
    unanswerable = task is not None and task.options.unanswerable
    return dataclasses.replace(SETTING, **UNANSWERABLE) if unanswerable else SETTING
