"""Reformer as a language model of bytes, 65,536 at a time.

    etc-jax train --config=reformer_enwik8 \
        --workdir=runs/enwik8 --config.data.paths="('enwik8',)"

The file is split by position into 90 % for training, 5 % for validation and 5 % for
test, as usual. Any other file does as well; its bytes are the symbols. `bits` of the
evaluation are bits a byte, each byte counted once.

The numbers are those of trax's `reformer_enwik8.gin` as it last was (2021), which its
own comments call the one for less memory: 12 layers of 768 with 8 heads of 64, local,
local, LSH, local, three times; dropout and attention dropout 0.2; Adam (0.9, 0.98,
1e-9) without weight decay; a peak of 7.0e-4 (0.03125 / sqrt(2000)) after 2,000 steps,
then with the root of the step; 100,000 steps of 8 sequences. A step takes its 8 rows
one after the other, to fit one small device; on 8 of them set train.accumulation_steps
to 1. Gradients are clipped to 1, which trax does not do.

Variants:

    paper     the model of the paper's own results (Kitaev et al. 2020, section 5: width
              1024, feed-forward 4096, 8 heads, Adafactor), by the gin file of the month
              of its submission (trax 8e2c6eb1, 2019-10): 3 layers of LSH with 2 rounds,
              keys and values of 64, dropout 0.1, a key counts once however often it is
              met, Adafactor with a peak of 0.0224 (2 / sqrt(8000)) after 8,000 steps,
              60,000 steps. There a token sees those of its own bucket alone; here all
              of its chunk and the one before
    paper,12_layers
              the same with 12 layers; the paper reports 1.05 bits a byte on the test
              part of enwik8 for 12 layers, trained longer and tuned further
    4096      sequences of 4,096 bytes
    short     4 layers of 128 for 4,096 bytes, 800 steps: for a laptop
    local     local layers in place of the LSH layers, for comparison
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.reformer.config import enwik8

SHORT = {
    "embed_dim": 128,
    "num_layers": 4,
    "pattern": ("local", "lsh"),
    "num_heads": 4,
    "mlp_dim": 512,
    "max_length": 4096,
    "axial_shape": (64, 64),
    "axial_dims": (64, 64),
    "local_chunk_length": 32,
    "lsh_chunk_length": 64,
    "num_buckets": (128,),
    "mlp_chunk_length": 0,
    "head_dim": None,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "initializer_range": 0.08,
    "dtype": "float32",
}


PAPER = {
    "embed_dim": 1024,
    "num_layers": 3,
    "pattern": ("lsh",),
    "mlp_dim": 4096,
    "axial_dims": (256, 768),
    "lsh_chunk_length": 128,
    "num_buckets": (1024,),
    "duplicates": "once",
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.0,
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(
        arg,
        ("4096", "short", "paper"),
        ("4096", "short", "12_layers"),
        flags=("local",),
    )
    if "12_layers" in chosen and "paper" not in chosen:
        raise ValueError("12_layers goes with paper; without it there are 12 anyway")
    config = config_lib.default_config("reformer")
    changes = {"vocab_size": 256, "dtype": "bfloat16"}
    changes |= {"mlp_chunk_length": 8192, "logits_chunk_length": 8192}
    length = 65536
    if "4096" in chosen:
        length = 4096
        changes |= {"max_length": 4096, "axial_shape": (64, 64), "num_buckets": (32,)}
    if "short" in chosen:
        length = 4096
        changes |= SHORT
    if "paper" in chosen:
        changes |= PAPER
    if "12_layers" in chosen:
        changes["num_layers"] = 12
    if "local" in chosen:
        changes["pattern"] = ("local",)
    config.model.update(dataclasses.asdict(enwik8(**changes)))
    config.objective.name = "causal_lm"
    config.data.update(source="bytes", vocab_size=256, input_length=length)
    config.train.update(num_steps=100_000, batch_size=8, eval_every_steps=1000)
    config.optimizer.weight_decay = 0.0
    if "paper" in chosen:
        config.optimizer.update(name="adafactor", learning_rate=2 * 8000**-0.5)
        config.schedule.update(name="inverse_sqrt", warmup_steps=8000)
        config.train.num_steps = 60_000
    else:
        rate = 0.03125 * 2000**-0.5
        config.optimizer.update(learning_rate=rate, b1=0.9, b2=0.98, eps=1e-9)
        config.schedule.update(name="inverse_sqrt", warmup_steps=2000)
    if length == 65536:
        config.train.accumulation_steps = 8
    if "short" in chosen:
        config.optimizer.learning_rate = 3e-3
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=800, batch_size=1, eval_every_steps=200)
    return config
