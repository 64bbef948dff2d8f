"""Longformer on whole texts: IMDB, hyperpartisan news (Beltagy et al. 2020, table 7).

    etc-jax convert --hf=longformer-base-4096 --out=models/longformer
    etc-jax prepare --task=imdb --tokenizer=longformer-base-4096 \
        --out=caches/imdb_train aclImdb/train
    etc-jax prepare --task=imdb --tokenizer=longformer-base-4096 \
        --out=caches/imdb_test aclImdb/test
    etc-jax train --config=longformer_classification:imdb \
        --workdir=runs/imdb --config.checkpoint.init_from=models/longformer \
        --config.data.paths="('caches/imdb_train',)" \
        --config.data.validation_paths="('caches/imdb_test',)"
    etc-jax evaluate --model=runs/imdb --out=runs/imdb/test aclImdb/test

    python -m etc_jax.tasks.hyperpartisan.split \
        --articles=articles-training-byarticle-20181122.xml \
        --splits=hp-splits.json --out=hyperpartisan

and the same with `:hyperpartisan` and the files of that folder, of which
`data.validation_files` names the part for development: the best checkpoint is that of
the highest F1. The first token of a text is global. In the paper, of the base model:
accuracy of IMDB 95.7 (RoBERTa on the first 512 tokens 95.3), F1 of hyperpartisan news
94.8 (87.4), a set so small that seeds differ by points. Not trained here at this size.
15 epochs of both sets are the paper's (Beltagy et al. 2020, appendix; not checked
against the code); batch, learning rate and a warm-up of a tenth are a choice. Variants:

    imdb            25,000 reviews
    hyperpartisan   516 articles
    roberta         the baseline of that table, RoBERTa on the first 512
                    tokens (--input_length=512 for etc-jax prepare); init_from a RoBERTa
                    that was converted
    short           4 layers of 128 for 512 tokens, windows of 64, without a model to
                    start from, to see that everything works
"""

import dataclasses

from etc_jax import config as config_lib, recipes

IMDB = recipes.FinetuningRecipe(
    "imdb", num_examples=25_000, epochs=15, batch_size=32, learning_rate=3e-5
)
SETTINGS = {
    "imdb": IMDB,
    "hyperpartisan": dataclasses.replace(IMDB, task="hyperpartisan", num_examples=516),
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, tuple(SETTINGS), ("roberta", "short"))
    name = next((n for n in SETTINGS if n in chosen), "imdb")
    by_f1 = name == "hyperpartisan" and "short" not in chosen
    return recipes.longformer(
        SETTINGS[name],
        chosen,
        global_length=1,
        short_global_length=1,
        best_metric="official_f1" if by_f1 else "accuracy",
        short_steps=200,
    )
