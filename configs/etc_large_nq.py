"""ETC-large on Natural Questions (ETC paper, table 2 and appendix C).

The commands are those of `etc_base_nq.py`, with this file and, for the default,
RoBERTa's vocabulary (a folder with vocab.json and merges.txt, or the sentencepiece
model of the released checkpoint). Variants, with the paper's long / short answer F1 on
the development set:

    (none)        0.782 / 0.585    558M, lifted from RoBERTa before pre-training
    bert_vocab    0.761 / 0.565    539M, pre-trained from nothing
    8192          not in the paper: 460 global tokens, stride 4096

The best model of the paper: 2 epochs, 3e-5, batches of 64; 0.7778 / 0.5786 on the test
set (table 5). `SWEEP` is the paper's grid. As for the base model, `windows=NUMBER` says
how many windows the training cache has.
"""

from etc_jax import config as config_lib
from etc_jax import recipes
from etc_jax.models import etc

SETTING = recipes.Finetuning(
    "natural_questions",
    num_examples=307_373,
    epochs=2,
    batch_size=64,
    learning_rate=3e-5,
)
SWEEP = tuple(recipes.sweep(SETTING, learning_rate=(3e-5, 5e-5), epochs=(2, 3)))


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    names, setting = recipes.given_windows(arg, SETTING)
    chosen = config_lib.variants(names, flags=("bert_vocab", "8192"))
    model = etc.large(
        vocab_size=30522 if "bert_vocab" in chosen else 50265,
        dtype="bfloat16",
        remat_policy="full",
    )
    long = "8192" in chosen
    return setting.config(
        model,
        long_length=8192 if long else 4096,
        global_length=460 if long else 230,
    )
