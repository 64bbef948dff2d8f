"""ETC-base on Natural Questions (ETC paper, table 2 and appendix C).

    etc-jax prepare --task=natural_questions --out=caches/nq_train \
        --tokenizer=bert_base_uncased/vocab.txt nq-train-*.jsonl.gz
    etc-jax prepare --task=natural_questions --out=caches/nq_dev \
        --tokenizer=bert_base_uncased/vocab.txt nq-dev-*.jsonl.gz
    etc-jax train --config=etc_base_nq:windows=NUMBER \
        --workdir=runs/nq --config.checkpoint.init_from=models/etc_base \
        --config.data.paths="('caches/nq_train',)" \
        --config.data.validation_paths="('caches/nq_dev',)" \
        --config.data.validation_files="('nq-dev-00.jsonl.gz', 'nq-dev-01.jsonl.gz',
            'nq-dev-02.jsonl.gz', 'nq-dev-03.jsonl.gz', 'nq-dev-04.jsonl.gz')"
    etc-jax evaluate --model=runs/nq --out=runs/nq/dev nq-dev-*.jsonl.gz

`init_from` is a run of `etc_base_pretrain.py`, or what `etc-jax convert` made of an
official checkpoint or of BERT. Inputs of 4096 long and 230 global tokens, with a stride
of 2048. An article is several windows: `windows=` is the number in the training cache,
from which the number of steps follows; without it there is one for each of the 307,373
questions. How many windows without an answer to train on, the paper does not tell
(`--null_share`, `--unanswerable_share` of etc-jax prepare; the official code keeps
all).

Variants, joined by commas, are rows of table 2 (long / short answer F1 on the
development set in the paper):

    (none)         0.725 / 0.522
    8192           0.740 / 0.542    460 global tokens, stride 4096
    512            128 global tokens, stride 128; 0.645 / 0.478 with shared,no_hard_g2l
                   and without CPC
    2x_radius      0.737 / 0.530    169 for 84; from a model that was pre-trained so
    2x_vocab       0.733 / 0.532    from a model that was pre-trained so
    shared         0.721 / 0.514    one projection for all pieces, pre-trained so
    no_hard_g2l    0.717 / 0.524 with shared; from a model that was pre-trained so
    fixed_blocks   a global token every 97 tokens, pre-trained so; 0.697 / 0.508 with
                   shared,no_hard_g2l
    from_scratch   not in the paper: no pre-training
    tiny           small, from nothing, for a laptop: 512 long tokens, 80 steps

Other lengths are given to etc-jax prepare too, as --long_length=8192
--global_length=460 (strides follow from them); for fixed blocks --tokens_per_block=97.
Rows that differ in pre-training alone are this config with another `init_from`: a run
of `etc_base_pretrain.py:2x_pretraining` (0.746 / 0.558), or of
`:no_cpc,shared,no_hard_g2l` (0.692 / 0.497, with shared,no_hard_g2l here too).

Paper: 5 epochs took 10 h 47 min on 32 cores (16 chips) of TPU v3 (table 7). It does not
name the best setting of the base model; this one is the official code's. `get_sweep` is
the paper's grid, each with one seed. As there, the best model is that of the highest
mean of long and short answer F1 on the development set (appendix C.1): every
evaluation answers the articles of `data.validation_files` for it, all five files of
that set. Fewer files take less time, and choose by fewer articles than the paper.
"""

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "natural_questions",
    num_examples=307_373,
    epochs=3,
    batch_size=64,
    learning_rate=5e-5,
)

FLAGS = (*recipes.ETC_ABLATIONS, "fixed_blocks", *recipes.ETC_STARTS)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    names, setting = recipes.given_windows(arg, SETTING)
    lengths = tuple(recipes.ETC_GLOBAL_LENGTHS)
    chosen = config_lib.variants(names, lengths, flags=FLAGS)
    return recipes.etc_nq(setting, recipes.etc_base(chosen), chosen)


def get_sweep(arg: str = ""):
    """The paper's grid of settings; see `recipes.sweep`."""
    _, setting = recipes.given_windows(arg, SETTING)
    return recipes.sweep(setting, learning_rate=(3e-5, 5e-5), epochs=(3, 5))
