"""An encoder learns vectors by which queries find their passages; one's own pairs.

    etc-jax prepare --task=retrieval --tokenizer=models/bert \
        --query_column=question --passage_column=text --input_length=256 \
        --out=prepared train.csv
    etc-jax train --workdir=runs/retrieval \
        --config=retrieval:prepared=prepared,from=models/bert,dev=dev.csv
    etc-jax evaluate --model=runs/retrieval --out=runs/retrieval/dev dev.csv
    etc-jax convert --to_hf=runs/retrieval --out=retrieval_hf

and `etc_jax.load("runs/retrieval").encode(texts)` makes the vectors; the last folder is
one of sentence-transformers. Files of SQuAD are read too. After the colon:

    prepared=FOLDER  of `etc-jax prepare`, to learn from
    dev=FILE         raw: each evaluation ranks its passages for each of its queries;
                     the best checkpoint is that of the highest mean reciprocal rank
    validation=FOLDER prepared in the same way, for the loss of evaluations; without it
                     they give the loss of what is learnt
    from=FOLDER      a converted model (`etc-jax convert`): its family and sizes
    epochs=3         passes over the queries
    bert, roberta, longformer, ...
                     the family, in its base size, where no model is begun with
    tiny             a small model from nothing, to see that everything works

`objective.pooling` is mean, cls or global; `objective.temperature` 0.05 as in SimCSE
(Gao et al. 2021), and `objective.symmetric` adds the loss of passages that look for
their query. Batches of 128 are those of DPR (Karpukhin et al. 2020, section 4.2): every
passage of a batch is compared with every query. 3 epochs and a peak of 2e-5 with a
warm-up of a tenth are usual values, and no result of a search.
"""

from etc_jax import recipes
from etc_jax.recipes import prepared as prepared_recipes

# Without a prepared folder, to look at the config: lengths and a number of queries.
LENGTHS = {"input_length": 256, "global_length": 1}
SETTING = recipes.FinetuningRecipe(
    "retrieval",
    num_examples=10_000,
    epochs=3,
    batch_size=128,
    learning_rate=2e-5,
    optimizer="adamw",
)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    return prepared_recipes.config_of_variants(
        arg, lambda task: SETTING, lengths=LENGTHS
    ).config
