"""ETC-large on HotpotQA, distractor setting (ETC paper, table 3 and appendix C).

The commands are those of `etc_base_hotpotqa.py`, with this file and, for the default,
RoBERTa's vocabulary (a folder with vocab.json and merges.txt, or the sentencepiece
model of the released checkpoint). Variants:

    (none)        0.813 / 0.894    answer F1 / supporting F1 in the paper: 558M, lifted
                                   from RoBERTa before pre-training
    bert_vocab    0.798 / 0.890    539M, from nothing; see `etc_large_nq.py` for what
                                   the paper says of this row's vocabulary

The ablations of the base model are variants here too, of which the paper has no large
ones: flat (no structure above sentences), no_hard_g2l, shared, 2x_radius, 2x_vocab and
from_scratch. All but flat and from_scratch start from a model that was pre-trained so
(`etc_large_pretrain.py`). `tiny` is as of the base model.

The best model of the paper: 5 epochs, 3e-5, batches of 32, support threshold 0.4; it
was chosen by joint F1 on the development set (appendix C.2), as is the checkpoint here.
`get_sweep` is the paper's grid.
"""

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "hotpotqa", num_examples=90_431, epochs=5, batch_size=32, learning_rate=3e-5
)
SEEDS = recipes.sweep(SETTING, seed=(0, 1, 2))

FLAGS = (*recipes.ETC_ABLATIONS, "bert_vocab", "flat", *recipes.ETC_STARTS)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, flags=FLAGS)
    vocab_size = 30522 if "bert_vocab" in chosen else 50265
    model = recipes.etc_large(chosen, vocab_size=vocab_size)
    config = SETTING.config(model, long_length=4096, global_length=256)
    config.checkpoint.update(best_metric="official_joint_f1", best_is="highest")
    config.data.flat = "flat" in chosen
    return recipes.etc_started(config, chosen)


def get_sweep(arg: str = ""):
    """The paper's grid of settings; see `recipes.sweep`."""
    del arg
    return recipes.sweep(
        SETTING,
        learning_rate=(1e-5, 2e-5, 3e-5, 5e-5, 7e-5),
        epochs=(2, 5, 9, 13),
        batch_size=(32, 64, 128),
    )
