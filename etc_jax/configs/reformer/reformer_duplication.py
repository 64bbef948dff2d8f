"""Reformer on the duplication task (Kitaev et al. 2020, section 5.1, table 2).

    etc-jax train --config=reformer_duplication:lsh4 \
        --workdir=runs/duplication_lsh4

Sequences 0w0w of 1,024 symbols, of which the second w is to be predicted: who does not
find the same symbols in the first one guesses. One layer of 256, four heads of 64.
Accuracy on the second w in the paper, by the attention of training and of evaluation:

    trained   full    LSH-8   LSH-4   LSH-2   LSH-1
    full      100%    94.8%   92.5%   76.9%   52.5%
    lsh4      0.8%    100%    99.9%   99.4%   91.9%
    lsh2      0.8%    100%    99.9%   98.1%   86.8%
    lsh1      0.8%    99.9%   99.6%   94.8%   77.9%

A row is a run of its own, and each of its columns one that takes no step:

    etc-jax train --config=reformer_duplication:as_it_is,lsh8 \
        --config.checkpoint.init_from=runs/duplication_full \
        --workdir=runs/duplication_full_lsh8

`etc-jax reproduce reformer.table2 --run` trains all four and fills this table, at the
size of a laptop with `--scale=tiny`. Length and 150,000 steps are the paper's.
Optimizer and batch are those of trax's `transformer_copy.gin` of its time (8e2c6eb1,
2019-10): Adafactor, a peak of 0.0112 (1 / sqrt(8000)) after 8,000 steps, then with the
root of the step, 16 sequences, no dropout; a key that is met in several rounds counts
once. Gradients are clipped to 1, which trax does not do. Variants:

    full      one chunk: every token sees all before it
    lsh4      four rounds of hashing; lsh8, lsh2, lsh1 are eight, two and one
    as_it_is  the model that one starts from is evaluated, with the attention that is
              named beside it, on 512 rows of `train.seed`; its hashes are drawn with
              `model.hash_seed`. A forgotten init_from is an error
    gin2019   that file as it is: 4,096 symbols, 8 rounds of 8 x 16 buckets, 50,000
              steps; its dropping of hashes at a rate of 0.1 is not here
    short     256 symbols and a width of 64, for a CPU, with Adam as it was measured
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.reformer.config import duplication

ROUNDS = {"lsh1": 1, "lsh2": 2, "lsh4": 4, "lsh8": 8}
SHORT = {"lsh_chunk_length": 16, "num_buckets": (32,), "embed_dim": 64, "mlp_dim": 64}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    attentions = ("full", *ROUNDS)
    chosen = config_lib.variants(
        arg, (*attentions, "gin2019"), ("short", "gin2019"), flags=("as_it_is",)
    )
    attention = next((x for x in attentions if x in chosen), "lsh4")
    config = config_lib.default_config("reformer")
    length = 256 if "short" in chosen else 1024
    sizes = {"max_length": length, "num_hashes": ROUNDS.get(attention, 1)}
    if "short" in chosen:
        sizes |= SHORT
    if "gin2019" in chosen:
        length = 4096
        sizes = {"max_length": length, "num_hashes": 8, "num_buckets": (8, 16)}
    if attention == "full":
        sizes["lsh_chunk_length"] = length
    config.model.update(dataclasses.asdict(duplication(**sizes)))
    config.objective.name = "causal_lm"
    config.data.update(
        source="duplication", vocab_size=config.model.vocab_size, input_length=length
    )
    config.optimizer.update(
        name="adafactor", learning_rate=8000**-0.5, weight_decay=0.0
    )
    config.schedule.update(name="inverse_sqrt", warmup_steps=8000)
    config.train.update(
        num_steps=150_000, batch_size=16, eval_every_steps=5000, log_every_steps=500
    )
    if "gin2019" in chosen:
        config.train.update(num_steps=50_000, eval_every_steps=500)
    if "short" in chosen:
        config.optimizer.update(name="adamw", learning_rate=1e-3, b2=0.98)
        config.schedule.update(name="linear", warmup_steps=100)
        config.train.update(num_steps=800, eval_every_steps=200, log_every_steps=50)
        config.train.batch_size = 32
    if "as_it_is" in chosen:
        config.train.update(num_steps=0, batch_size=32, eval_steps=16)
        # What the attention of the trained model may differ in.
        config.checkpoint.init_from_changes = ("lsh_chunk_length", "num_hashes")
    return config
