"""Reformer as a language model of bytes, 65,536 at a time (trax, reformer_enwik8).

    python -m etc_jax.train --config=configs/reformer_enwik8.py \
        --workdir=runs/enwik8 --config.data.paths="('enwik8',)"

The file is split by position into 90 % for training, 5 % for validation and 5 % for
test, as usual. Any other file does as well; its bytes are the symbols. `bits` of the
evaluation are bits a byte, each byte counted once. 12 layers of 768: local, local, LSH,
local, three times. The paper reports 1.05 bits a byte for 12 layers on the test part.

A step takes its 8 rows one after the other, which fits one TPU v5e of 16 GB; on 8 chips
set train.accumulation_steps to 1.

Variants:

    4096      sequences of 4,096 bytes
    short     4 layers of 128 for 4,096 bytes, 800 steps: for a laptop
    local     local layers in place of the LSH layers, for comparison
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models import reformer

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
    "dropout_rate": 0.0,
    "initializer_range": 0.08,
    "dtype": "float32",
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, ("4096", "short"), flags=("local",))
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
    if "local" in chosen:
        changes["pattern"] = ("local",)
    config.model.update(dataclasses.asdict(reformer.enwik8(**changes)))
    config.objective.name = "causal_lm"
    config.data.update(source="bytes", vocab_size=256, long_length=length)
    config.optimizer.update(
        learning_rate=1e-3, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.0
    )
    config.schedule.update(name="inverse_sqrt", warmup_steps=2000)
    config.train.update(num_steps=100_000, batch_size=8, eval_every_steps=1000)
    if length == 65536:
        config.train.accumulation_steps = 8
    if "short" in chosen:
        config.optimizer.learning_rate = 3e-3
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=800, batch_size=1, eval_every_steps=200)
    return config
