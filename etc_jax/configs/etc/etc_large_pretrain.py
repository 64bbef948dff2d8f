"""ETC-large, pre-trained with MLM + CPC as in the paper (sections 3.5 and 4.1, app. C).

    etc-jax train --config=etc_large_pretrain --workdir=runs/1 \
        --config.data.paths="('wikipedia/*.jsonl.gz','books/*.jsonl.gz')" \
        --config.data.tokenizer=bert_base_uncased/vocab.txt

and, from RoBERTa, the paper's best model:

    etc-jax convert --lift=roberta-large --out=models/lifted \
        --config=etc_large_pretrain:roberta_vocab
    etc-jax train --config=etc_large_pretrain:roberta_vocab \
        --workdir=runs/2 --config.checkpoint.init_from=models/lifted \
        --config.data.paths="('wikipedia/*.jsonl.gz','books/*.jsonl.gz')" \
        --config.data.tokenizer=roberta-large

24 layers of 1024, r = 169, k = 24; 4096 long and 230 global tokens. The data is as in
`etc_base_pretrain.py`. Variants, joined by commas:

    (none)           BERT's vocabulary of 30,522, from nothing: 538M parameters,
                     learning rate sqrt(8) x 1e-3 (section 4.1)
    roberta_vocab    RoBERTa's vocabulary of 50,265 (a folder with vocab.json and
                     merges.txt): 558M parameters (table 8), lifted, learning rate 2e-3
                     (appendix C); a forgotten init_from is an error
    from_scratch     with roberta_vocab: from nothing after all, at sqrt(8) x 1e-3
    tiny             small, from nothing, for a laptop: 512 long tokens, 80 steps of
                     the documentation of Python, with a vocabulary learnt from it

and, as in `etc_base_pretrain.py`, 512, 8192, shared, no_cpc, no_hard_g2l, fixed_blocks,
2x_radius (r = 338), 2x_vocab (k = 48, 104 labels) and 2x_pretraining, of which the
paper has no large models.

Paper: 63,000 steps of 1024 x 4096 tokens (66 epochs) took 63 h 41 min on 512 cores (256
chips) of TPU v3 (table 6). Warm-up, decay and weight decay are not given: 10 % of the
steps, linear and 0.01 are chosen as in `etc_base_pretrain.py`. A mesh whose fsdp x
tensor does not divide the vocabulary needs a larger `--config.model.vocab_size`: 30592
or 50304.
"""

from etc_jax import config as config_lib, recipes


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    flags = (*recipes.ETC_PRETRAINING, "roberta_vocab", *recipes.ETC_STARTS)
    chosen = config_lib.variants(arg, tuple(recipes.ETC_GLOBAL_LENGTHS), flags=flags)
    roberta, from_scratch = "roberta_vocab" in chosen, "from_scratch" in chosen
    if from_scratch and not roberta:
        raise ValueError(
            "from_scratch goes with roberta_vocab; with BERT's vocabulary the run is "
            "from nothing anyway, so leave it out"
        )
    vocab_size = 50265 if roberta else 30522
    return recipes.etc_pretraining(
        recipes.etc_large(chosen, vocab_size=vocab_size, remat_policy="attention"),
        chosen,
        tokens_per_step=1024 * 4096,
        lifted=roberta and not from_scratch,
    )
