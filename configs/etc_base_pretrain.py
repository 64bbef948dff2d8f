"""ETC-base, pre-trained with MLM + CPC as in the paper (sections 3.5 and 4.1, app. C).

    python -m etc_jax.train --config=configs/etc_base_pretrain.py --workdir=runs/base \
        --config.data.paths="('wikipedia/*.jsonl.gz','books/*.jsonl.gz')" \
        --config.data.tokenizer=bert_base_uncased/vocab.txt

Documents are rows of JSONL files (`--config.data.source=text` for text files) with
blank lines between paragraphs; the paper's are the Wikipedia and the books of BERT, in
its uncased vocabulary of 30,522. One global token a sentence.

Variants, joined by commas (`configs/etc_base_pretrain.py:8192,shared`), are rows of
the paper's tables 2 to 4:

    512, 4096, 8192    long tokens, with 128, 230, 460 global tokens; default 4096
    shared             one projection for all four pieces: 109M instead of 166M
    no_cpc             MLM alone
    no_hard_g2l        global tokens see all long tokens
    fixed_blocks       a global token every 97 tokens, not every sentence; without CPC
    2x_radius          r = 169 instead of 84
    2x_vocab           k = 24 and 64 labels instead of 12 and 32
    2x_pretraining     126,000 steps instead of 63,000

Paper: 63,000 steps of 512 x 4096 tokens (33 epochs) took 11 h 46 min on 256 cores (128
chips) of TPU v3, `shared` 11 h 13 min (table 6). For other lengths the rows of a batch
are such that a step has as many tokens. The paper tells neither warm-up, decay nor
weight decay: these are BERT's. A mesh whose fsdp x tensor does not divide 30,522 needs
`--config.model.vocab_size=30592`.
"""

from etc_jax import config as config_lib

GLOBAL_LENGTHS = {"512": 128, "4096": 230, "8192": 460}
FLAGS = ("shared", "no_cpc", "no_hard_g2l", "fixed_blocks")
FLAGS += ("2x_radius", "2x_vocab", "2x_pretraining")
TOKENS_PER_STEP = 512 * 4096


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, GLOBAL_LENGTHS, flags=FLAGS)
    length = next((x for x in GLOBAL_LENGTHS if x in chosen), "4096")
    config = config_lib.default_config()
    config.model.update(dtype="bfloat16", remat_policy="attention")
    config.model.logits_chunk_length = 128
    config.data.update(
        source="jsonl",
        vocab_size=30522,
        long_length=int(length),
        global_length=GLOBAL_LENGTHS[length],
        held_back_fraction=0.001,
    )
    config.optimizer.update(name="lamb_bert", learning_rate=8**0.5 * 1e-3)
    config.train.update(
        num_steps=63_000,
        batch_size=TOKENS_PER_STEP // int(length),
        log_every_steps=100,
        eval_every_steps=1000,
        eval_steps=8,
    )
    config.checkpoint.every_steps = 1000
    _apply(chosen, config)
    config.schedule.update(name="linear", warmup_steps=config.train.num_steps // 10)
    return config


def _apply(chosen: set[str], config) -> None:
    if "shared" in chosen:
        config.model.update(share_qkv=True, share_out=True)
    if "no_hard_g2l" in chosen:
        config.model.hard_g2l = False
    if "fixed_blocks" in chosen:
        config.data.global_tokens = "fixed_blocks"
    if chosen & {"no_cpc", "fixed_blocks"}:
        config.objective.update(mlm_weight=1.0, cpc_weight=0.0)
    if "2x_radius" in chosen:
        config.model.radius = 169
    if "2x_vocab" in chosen:
        config.model.update(max_distance=24, num_labels=64)
    if "2x_pretraining" in chosen:
        config.train.num_steps = 126_000
