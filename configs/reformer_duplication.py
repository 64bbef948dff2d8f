"""Reformer on the duplication task (Kitaev et al. 2020, section 5.1, table 2).

    python -m etc_jax.train --config=configs/reformer_duplication.py:lsh4 \
        --workdir=runs/duplication_lsh4

Sequences 0w0w of 1,024 symbols, of which the second w is to be foretold: who does not
find the same symbols in the first one guesses. One layer of 256, four heads. Accuracy
on the second w in the paper, by the attention of training and of evaluation:

    trained   full    LSH-8   LSH-4   LSH-2   LSH-1
    full      100%    94.8%   92.5%   76.9%   52.5%
    lsh4      0.8%    100%    99.9%   99.4%   91.9%
    lsh2      0.8%    100%    99.9%   98.1%   86.8%
    lsh1      0.8%    99.9%   99.6%   94.8%   77.9%

`python -m benchmarks.duplication` trains all four and prints this table. Variants:

    full      one chunk: every token sees all before it
    lsh4      four rounds of hashing; lsh2, lsh1 likewise
    short     256 symbols and a width of 64, for a CPU

A key that is met in several rounds counts once, as in the paper's own code. The paper
trains 150,000 steps; its optimizer settings are not told, these are a guess.
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models import reformer

ROUNDS = {"lsh1": 1, "lsh2": 2, "lsh4": 4}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    attentions = ("full", *ROUNDS)
    chosen = config_lib.variants(arg, attentions, flags=("short",))
    attention = next((x for x in attentions if x in chosen), "lsh4")
    config = config_lib.default_config("reformer")
    length = 256 if "short" in chosen else 1024
    sizes = {"max_length": length, "num_hashes": ROUNDS.get(attention, 1)}
    if "short" in chosen:
        sizes |= {"lsh_chunk_length": 16, "num_buckets": (32,)}
        sizes |= {"embed_dim": 64, "mlp_dim": 64}
    if attention == "full":
        sizes["lsh_chunk_length"] = length
    config.model.update(dataclasses.asdict(reformer.duplication(**sizes)))
    config.objective.name = "causal_lm"
    config.data.update(
        source="duplication", vocab_size=config.model.vocab_size, long_length=length
    )
    config.optimizer.update(learning_rate=1e-3, b2=0.98, weight_decay=0.0)
    config.schedule.update(name="linear", warmup_steps=1000)
    config.train.update(
        num_steps=150_000, batch_size=64, eval_every_steps=5000, log_every_steps=500
    )
    if "short" in chosen:
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=800, eval_every_steps=200, log_every_steps=50)
        config.train.batch_size = 32
    return config
