"""ETC-base on OpenKP (ETC paper, table 4 and appendix C).

    etc-jax prepare --task=openkp --tokenizer=bert_base_uncased/vocab.txt \
        --out=caches/openkp_train OpenKPTrain.jsonl
    etc-jax prepare --task=openkp --tokenizer=bert_base_uncased/vocab.txt \
        --out=caches/openkp_dev OpenKPDev.jsonl
    etc-jax train --config=etc_base_openkp \
        --workdir=runs/openkp --config.checkpoint.init_from=models/etc_base \
        --config.data.paths="('caches/openkp_train',)" \
        --config.data.validation_paths="('caches/openkp_dev',)" \
        --config.data.validation_files="('OpenKPDev.jsonl',)"
    etc-jax evaluate --model=runs/openkp --out=runs/openkp/dev \
        OpenKPDev.jsonl

`init_from` is a run of `etc_base_pretrain.py`, or what `etc-jax convert` made of an
official checkpoint or of BERT. Inputs of 4096 long tokens and 512 global ones, one for
each element of the page.

Variants, joined by commas, are rows of table 4 (F1@3 on the development set in the
paper):

    (none)         0.409
    max_loss       0.416    the best occurrence of a keyphrase, not the first
    shared         0.409    one projection for all pieces, pre-trained so
    no_visual      0.402    without the looks of elements
    no_hard_g2l    0.400 with no_visual; from a model that was pre-trained so
    fixed_blocks   0.400 with no_hard_g2l: a global token every 97 tokens, pre-trained
                   so; without looks, as no global token is an element
    512            0.399 with fixed_blocks,no_hard_g2l
    from_scratch   not in the paper: no pre-training
    tiny           small, from nothing, for a laptop: 512 long tokens, 80 steps

Row "no CPC" (0.400) is this config with `no_visual,no_hard_g2l` and `init_from` a run
of `etc_base_pretrain.py:no_cpc,no_hard_g2l`; those of fixed blocks start from one of
`etc_base_pretrain.py:fixed_blocks,no_hard_g2l`. These need --tokens_per_block=97 of
etc-jax prepare too, and 512 tokens --long_length=512; elements are taken whole all the
same. In 512 tokens fewer pages show a keyphrase than the number of steps supposes. How
long the blocks were in OpenKP, the paper does not tell: 97 is for Natural Questions.

Paper: 3 epochs took 2 h 5 min on 32 cores (16 chips) of TPU v3 (table 7). It does not
name the best setting of the base model; this one is the official code's. `get_sweep` is
the paper's grid, each with one seed. As there, the best model is that of the highest
F1@3 on the development set (appendix C.4): every evaluation answers the pages of
`data.validation_files` for it.
"""

from etc_jax import config as config_lib, recipes

# 350 of the 133,724 pages have no keyphrase in the input.
SETTING = recipes.FinetuningRecipe(
    "openkp", num_examples=133_374, epochs=2, batch_size=64, learning_rate=5e-5
)

LENGTHS = ("512", "4096")
FLAGS = ("max_loss", "shared", "no_visual", "no_hard_g2l", "fixed_blocks")
FLAGS += recipes.ETC_STARTS


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, LENGTHS, flags=FLAGS)
    config = recipes.etc_openkp(SETTING, recipes.etc_base(chosen), chosen)
    config.objective.keyphrase_loss = "best" if "max_loss" in chosen else "first"
    return config


def get_sweep(arg: str = ""):
    """The paper's grid of settings; see `recipes.sweep`."""
    del arg
    return recipes.sweep(SETTING, learning_rate=(3e-5, 5e-5), epochs=(2, 3))
