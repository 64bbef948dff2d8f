"""ETC-large on WikiHop (ETC paper, table 3 and appendix C).

The commands are those of `etc_base_wikihop.py`, with this file and, for the default,
RoBERTa's vocabulary (a folder with vocab.json and merges.txt, or the sentencepiece
model of the released checkpoint). Variants, with the paper's accuracy on the
development set:

    (none)        79.8    558M, lifted from RoBERTa before pre-training
    bert_vocab    77.0    539M, from nothing; see `etc_large_nq.py` for what the paper
                          says of this row's vocabulary
    lamb          LAMB in place of Adam, as for the leaderboard (82.25 on the test set)

The ablations of the base model are variants here too, of which the paper has no large
ones: flat (no structure above sentences), no_final_layer, from_scratch, and
no_hard_g2l, shared, 2x_radius and 2x_vocab, which start from a model that was
pre-trained so (`etc_large_pretrain.py`). `tiny` is as of the base model.

The best model of the paper: 10 epochs, 5e-5. `get_sweep` is the paper's grid.
"""

import dataclasses

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "wikihop", num_examples=43_738, epochs=10, batch_size=64, learning_rate=5e-5
)
LAMB = dataclasses.replace(SETTING, optimizer="lamb_bert", learning_rate=4e-4)
WEIGHT_DECAY = 0.1

FLAGS = (*recipes.ETC_ABLATIONS, "bert_vocab", "flat", "lamb", "no_final_layer")
FLAGS += recipes.ETC_STARTS


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, flags=FLAGS)
    vocab_size = 30522 if "bert_vocab" in chosen else 50265
    model = recipes.etc_large(chosen, vocab_size=vocab_size)
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
        return recipes.sweep(LAMB, learning_rate=(3e-4, 4e-4, 5e-4), epochs=(5, 10))
    rates = (2e-5, 3e-5, 4e-5, 5e-5)
    return recipes.sweep(SETTING, learning_rate=rates, epochs=(5, 10))
