"""Reformer that sees both sides, trained on masked tokens (BERT's 15 %).

    etc-jax train --config=reformer_mlm:short \
        --workdir=runs/reformer_mlm --config.data.paths="('README.md', 'docs/**/*.md')"

Any files do: their bytes are the symbols, the mask is the id 256. They are split by
position as for `reformer_enwik8.py`. `accuracy` and `bits` (a byte) of the evaluation
are of the masked bytes. The sizes are those of that config, with attention to the
chunks on both sides. No paper trains such a model: learning rate, warm-up and length of
training are a choice.

Variants:

    4096      sequences of 4,096 tokens
    short     4 layers of 128 for 512 tokens, 1,000 steps: for a laptop
    text      pieces of words in place of bytes, whole words masked; the text is the
              documentation of Python, or set data.source to "text", "jsonl" or "cache"
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.reformer.config import enwik8

SHORT = {
    "embed_dim": 128,
    "num_layers": 4,
    "pattern": ("local", "lsh"),
    "num_heads": 4,
    "mlp_dim": 256,
    "max_length": 512,
    "axial_shape": (16, 32),
    "axial_dims": (64, 64),
    "local_chunk_length": 32,
    "lsh_chunk_length": 32,
    "num_buckets": (16,),
    "head_dim": None,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, ("4096", "short"), flags=("text",))
    vocab_size = 8192 if "text" in chosen else 320
    changes = {"causal": False, "local_chunks_after": 1, "lsh_chunks_after": 1}
    changes |= {"vocab_size": vocab_size, "logits_chunk_length": 2048}
    config = config_lib.default_config("reformer")
    config.optimizer.update(learning_rate=1e-3, b2=0.98, weight_decay=0.01)
    config.schedule.update(name="linear", warmup_steps=2000)
    config.train.update(num_steps=100_000, batch_size=8, eval_every_steps=1000)
    if "short" in chosen:
        changes |= SHORT
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=1000, batch_size=16, eval_every_steps=250)
    else:
        changes |= {"dtype": "bfloat16", "mlp_chunk_length": 8192}
    if "4096" in chosen:
        changes |= {"max_length": 4096, "axial_shape": (64, 64), "num_buckets": (32,)}
    model = enwik8(**changes)
    config.model.update(dataclasses.asdict(model))
    config.objective.name = "masked_lm"
    source = "builtin" if "text" in chosen else "bytes"
    config.data.update(
        source=source, vocab_size=vocab_size, input_length=model.max_length
    )
    return config
