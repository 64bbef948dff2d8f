"""ETC-base on WikiHop (ETC paper, table 3 and appendix C).

    etc-jax prepare --task=wikihop --tokenizer=bert_base_uncased/vocab.txt \
        --out=caches/wikihop_train qangaroo_v1.1/wikihop/train.json
    etc-jax prepare --task=wikihop --tokenizer=bert_base_uncased/vocab.txt \
        --out=caches/wikihop_dev qangaroo_v1.1/wikihop/dev.json
    etc-jax train --config=etc_base_wikihop \
        --workdir=runs/wikihop --config.checkpoint.init_from=models/etc_base \
        --config.data.paths="('caches/wikihop_train',)" \
        --config.data.validation_paths="('caches/wikihop_dev',)"
    etc-jax evaluate --model=runs/wikihop --out=runs/wikihop/dev \
        qangaroo_v1.1/wikihop/dev.json

`init_from` is a run of `etc_base_pretrain.py`, or what `etc-jax convert` made of an
official checkpoint or of BERT. Inputs of 4096 long and 430 global tokens.

Variants, joined by commas, are rows of table 3 (accuracy on the development set in the
paper):

    (none)         73.2
    flat           70.7    no structure above sentences
    no_hard_g2l    75.9    from a model that was pre-trained so
    shared         73.7    one projection for all pieces, pre-trained so
    lamb           LAMB in place of Adam, as for the leaderboard; the paper names no
                   learning rate, the official code recommends 3e-4 to 5e-4
    no_final_layer, from_scratch    not in the paper
    tiny           small, from nothing, for a laptop: 512 long tokens, 80 steps

Row "no CPC" (73.0) is this config with `init_from` a run of
`etc_base_pretrain.py:no_cpc`; add `flat,no_hard_g2l` for 70.0.

15 epochs took 5 h 55 min on 32 cores (16 chips) of TPU v3 (table 7). The learning rate
and the weight decay of 0.1 are those of the official command; `get_sweep` is the
paper's grid, with `lamb` that of the other optimizer.
"""

import dataclasses

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "wikihop", num_examples=43_738, epochs=15, batch_size=64, learning_rate=4e-5
)
LAMB = dataclasses.replace(SETTING, optimizer="lamb_bert", learning_rate=4e-4)
WEIGHT_DECAY = 0.1

FLAGS = ("flat", "no_hard_g2l", "shared", "lamb", "no_final_layer", *recipes.ETC_STARTS)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, flags=FLAGS)
    model = recipes.etc_base(chosen)
    setting = LAMB if "lamb" in chosen else SETTING
    config = setting.config(model, long_length=4096, global_length=430)
    config.optimizer.weight_decay = WEIGHT_DECAY
    config.checkpoint.update(best_metric="accuracy", best_is="highest")
    config.data.flat = "flat" in chosen
    config.objective.final_layer = "no_final_layer" not in chosen
    return recipes.etc_started(config, chosen)


def get_sweep(arg: str = ""):
    """The paper's grid of settings; see `recipes.sweep`."""
    if "lamb" in arg.split(","):
        return recipes.sweep(LAMB, learning_rate=(3e-4, 4e-4, 5e-4), epochs=(5, 10, 15))
    rates = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
    return recipes.sweep(SETTING, learning_rate=rates, epochs=(5, 10, 15))
