"""ETC-base, pre-trained with MLM + CPC as in the paper (sections 3.5 and 4.1, app. C).

    etc-jax train --config=etc_base_pretrain --workdir=runs/base \
        --config.data.paths="('wikipedia/*.jsonl.gz','books/*.jsonl.gz')" \
        --config.data.tokenizer=bert_base_uncased/vocab.txt

Documents are rows of JSONL files (`--config.data.source=text` for text files) with
blank lines between paragraphs; the paper's are the Wikipedia and the books of BERT, in
its uncased vocabulary of 30,522. One global token a sentence.

Variants, joined by commas (`--config=etc_base_pretrain:8192,shared`), are rows of
the paper's tables 2 to 4:

    512, 4096, 8192    long tokens, with 128, 230, 460 global tokens; default 4096
    shared             one projection for all four pieces: 109M instead of 166M
    no_cpc             MLM alone
    no_hard_g2l        global tokens see all long tokens
    fixed_blocks       a global token every 97 tokens, not every sentence; without CPC
    2x_radius          r = 169 instead of 84
    2x_vocab           k = 24 and 64 labels instead of 12 and 32
    2x_pretraining     126,000 steps instead of 63,000
    lifted             from BERT, as `etc-jax convert --lift` makes it (section 3.6):
                       learning rate 2e-3; a forgotten init_from is an error. The paper
                       has no base model of this kind; the rate is that of the large one
    tiny               small, from nothing, for a laptop: 512 long tokens, 80 steps of
                       the documentation of Python, with a vocabulary learnt from it

Paper: 63,000 steps of 512 x 4096 tokens (33 epochs) took 11 h 46 min on 256 cores (128
chips) of TPU v3, `shared` 11 h 13 min (table 6). For other lengths the rows of a batch
are such that a step has as many tokens. LAMB and its peak of sqrt(8) x 1e-3 are those
of section 4.1.

The paper tells neither warm-up nor decay nor weight decay, and its code has no
pre-training. Linear decay and 0.01 are BERT's. BERT warms up for 1 % of its steps
(10,000 of 1,000,000); here it is 10 %, a choice: the peak is 28 times BERT's, and 10 %
is what ETC's code takes for fine-tuning. A mesh whose fsdp x tensor does not divide
30,522 needs `--config.model.vocab_size=30592`.
"""

from etc_jax import config as config_lib, recipes


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    flags = (*recipes.ETC_PRETRAINING, "lifted", "tiny")
    chosen = config_lib.variants(arg, tuple(recipes.ETC_GLOBAL_LENGTHS), flags=flags)
    return recipes.etc_pretraining(
        recipes.etc_base(chosen),
        chosen,
        tokens_per_step=512 * 4096,
        lifted="lifted" in chosen,
    )
