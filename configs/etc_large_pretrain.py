"""ETC-large, pre-trained with MLM + CPC as in the paper (sections 3.5 and 4.1, app. C).

    python -m etc_jax.train --config=configs/etc_large_pretrain.py --workdir=runs/1 \
        --config.data.paths="('wikipedia/*.jsonl.gz','books/*.jsonl.gz')" \
        --config.data.tokenizer=bert_base_uncased/vocab.txt

24 layers of 1024, r = 169, k = 24; 4096 long and 230 global tokens. The data is as in
`etc_base_pretrain.py`. Variant:

    roberta_vocab    RoBERTa's vocabulary of 50,265 (a folder with vocab.json and
                     merges.txt): 558M instead of 538M parameters

Paper: 63,000 steps of 1024 x 4096 tokens (66 epochs) took 63 h 41 min on 512 cores (256
chips) of TPU v3 (table 6). The learning rate is that of training from nothing; the
paper takes 2e-3 for weights lifted from RoBERTa. A mesh whose fsdp x tensor does not
divide the vocabulary needs a larger `--config.model.vocab_size`: 30592 or 50304.
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models import etc


def get_config(arg: str = ""):
    """The config, with RoBERTa's vocabulary for `:roberta_vocab`."""
    chosen = config_lib.variants(arg, flags=("roberta_vocab",))
    vocab_size = 50265 if "roberta_vocab" in chosen else 30522
    config = config_lib.default_config()
    large = etc.large(vocab_size=vocab_size, dtype="bfloat16", remat_policy="attention")
    config.model.update(dataclasses.asdict(large))
    config.model.logits_chunk_length = 128
    config.data.update(
        source="jsonl",
        vocab_size=vocab_size,
        long_length=4096,
        global_length=230,
        held_back_fraction=0.001,
    )
    config.optimizer.update(name="lamb_bert", learning_rate=8**0.5 * 1e-3)
    config.schedule.update(name="linear", warmup_steps=6_300)
    config.train.update(
        num_steps=63_000,
        batch_size=1024,
        log_every_steps=100,
        eval_every_steps=1000,
        eval_steps=8,
    )
    config.checkpoint.every_steps = 1000
    return config
