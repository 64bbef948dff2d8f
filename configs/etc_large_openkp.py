"""ETC-large on OpenKP (ETC paper, table 4 and appendix C).

The commands are those of `etc_base_openkp.py`, with this file and, for the default,
RoBERTa's vocabulary (a folder with vocab.json and merges.txt, or the sentencepiece
model of the released checkpoint). Variants, with the paper's F1@3 on the development
set:

    (none)              0.423    558M, lifted from RoBERTa before pre-training, max loss
    bert_vocab          0.419    539M, pre-trained from nothing, max loss
    first_occurrence    not in the paper: without max loss
    no_visual           not in the paper: not told what elements look like
    shared              not in the paper: one projection for all pieces, pre-trained so

The best model of the paper: 2 epochs, 3e-5, batches of 64; 0.4205 on the test set
(table 5). `SWEEP` is the paper's grid.
"""

from etc_jax import config as config_lib
from etc_jax import recipes
from etc_jax.models import etc

SETTING = recipes.Finetuning(
    "openkp", num_examples=133_374, epochs=2, batch_size=64, learning_rate=3e-5
)
SWEEP = tuple(recipes.sweep(SETTING, learning_rate=(3e-5, 5e-5), epochs=(2, 3)))

FLAGS = ("bert_vocab", "first_occurrence", "no_visual", "shared")


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, flags=FLAGS)
    shared = "shared" in chosen
    model = etc.large(
        vocab_size=30522 if "bert_vocab" in chosen else 50265,
        share_qkv=shared,
        share_out=shared,
        dtype="bfloat16",
        remat_policy="full",
    )
    config = SETTING.config(model, long_length=4096, global_length=512)
    config.checkpoint.update(best_metric="accuracy", best_is="highest")
    config.objective.update(
        keyphrase_loss="first" if "first_occurrence" in chosen else "best",
        visual_features="no_visual" not in chosen,
    )
    return config
