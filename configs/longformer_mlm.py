"""Longformer on masked tokens, or on more of them: from a RoBERTa or another model.

    python -m etc_jax.train --config=configs/longformer_mlm.py:short \
        --workdir=runs/longformer_mlm

    python -m etc_jax.convert --hf=longformer-base-4096 --out=models/longformer
    python -m etc_jax.train --config=configs/longformer_mlm.py \
        --workdir=runs/more --config.checkpoint.init_from=models/longformer \
        --config.data.source=cache --config.data.paths="('CACHE',)"

The sizes of longformer-base-4096, and the recipe of its authors for training on from
RoBERTa: learning rate 3e-5 after 500 steps, then linearly down; 3,000 steps of 64
sequences of 4,096 tokens. The vocabulary must be that of the model one starts from.

Variants:

    short     4 layers of 128 for 512 tokens, windows of 64, 1,000 steps: for a laptop;
              the text is the documentation of Python, the vocabulary learnt from it
    bytes     bytes in place of pieces of words; the mask is the id 256
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax import recipes
from etc_jax.models.encoder_config import LongformerConfig


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, ("short",), flags=("bytes",))
    changes = {"logits_chunk_length": 2048}
    config = config_lib.default_config("longformer")
    config.optimizer.update(
        learning_rate=3e-5, b2=0.98, eps=1e-6, weight_decay=0.01, clip_norm=5.0
    )
    config.schedule.update(name="linear", warmup_steps=500)
    config.train.update(num_steps=3000, batch_size=64, eval_every_steps=500)
    if "short" in chosen:
        changes |= recipes.SHORT_LONGFORMER
        config.optimizer.learning_rate = 1e-3
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=1000, batch_size=16, eval_every_steps=250)
    else:
        changes |= {"dtype": "bfloat16"}
    if "bytes" in chosen:
        changes["vocab_size"] = 320
    model = LongformerConfig(**changes)
    config.model.update(dataclasses.asdict(model))
    config.objective.name = "masked_lm"
    config.data.update(
        source="bytes" if "bytes" in chosen else "builtin",
        vocab_size=model.vocab_size,
        long_length=model.max_length,
    )
    return config
