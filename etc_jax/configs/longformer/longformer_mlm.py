"""Longformer on masked tokens, or on more of them: from a RoBERTa or another model.

    etc-jax train --config=longformer_mlm:short \
        --workdir=runs/longformer_mlm

    etc-jax train --config=longformer_mlm \
        --workdir=runs/more --config.checkpoint.init_from=longformer-base-4096 \
        --config.data.source=cache --config.data.paths="('CACHE',)"

The sizes of longformer-base-4096, or those of the model one starts from; the cache must
be in its vocabulary. 64 sequences of 4,096 tokens a step, learning rate 3e-5 after 500
steps, in one of two recipes of its authors:

    (none)    3,000 steps, then linearly down, b2 = 0.999, gradients clipped to 5: their
              notebook convert_model_to_long.ipynb (which recommends a constant rate,
              and takes what transformers has)
    65k       65,000 steps, down by a polynomial of power 3 (Beltagy et al. 2020,
              section 5; the notebook says the same of the paper); b2 = 0.98 and a
              weight decay of 0.01, as RoBERTa, and the notebook's clipping are a choice

Rows of the paper's table 5, bits a masked token of the base and the large model:

    1.846 / 1.496    `as_it_is,roberta` from a RoBERTa: no Longformer, 512 tokens
    10.299 / 8.738   `as_it_is` from what `etc-jax extend --positions=new` made of it
    1.957 / 1.597    `as_it_is` from what `etc-jax extend` made of it: positions copied
    1.753 / 1.414    `65k`, its evaluation at step 2,000
    1.705 / 1.358    `65k`
    1.850 / 1.504    `65k,new_positions`

`etc-jax reproduce longformer.table5` gives these commands whole, and with
`--scale=tiny --run` trains small models for the same rows.

Variants beside these recipes:

    as_it_is         the model that one starts from is evaluated; no step is taken
    roberta          a RoBERTa on 512 tokens in place of a Longformer; short: on 32
    new_positions    a RoBERTa of 512 positions (short: 32) that `etc-jax extend` made
                     long learns its new positions alone: the row "train extra position
                     embed. only" of the paper's table on masked tokens (not checked
                     against the code). All else is frozen and takes no memory of the
                     optimizer
    bytes            bytes in place of pieces of words; the mask is the id 256
    short            4 layers of 128 for 512 tokens, windows of 64, 1,000 steps: for a
                     laptop; the text is the documentation of Python, the vocabulary
                     learnt from it

With 65k, new_positions or as_it_is a forgotten init_from is an error.
"""

import dataclasses

from etc_jax import config as config_lib, recipes
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig

SHORT_ROBERTA_LENGTH = 32
MODEL = ("encoder", "mlm_dense", "mlm_norm", "mlm_bias")


def new_positions(length: int) -> tuple[tuple[str, float], ...]:
    """Groups of the optimizer: the positions after those of a RoBERTa learn alone.

    Args:
      length: of the RoBERTa, whose table has two rows of padding before them.
    """
    return ((f"position_embedder/embedding[{2 + length}:]", 1.0), (".*", 0.0))


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(
        arg,
        ("65k", "short"),
        ("65k", "as_it_is"),
        ("new_positions", "as_it_is"),
        ("new_positions", "roberta"),
        flags=("bytes",),
    )
    changes = {"logits_chunk_length": 2048}
    family = "roberta" if "roberta" in chosen else "longformer"
    roberta_length = recipes.ROBERTA_LENGTH
    if "short" in chosen:
        roberta_length = SHORT_ROBERTA_LENGTH
    config = config_lib.default_config(family)
    config.optimizer.update(
        learning_rate=3e-5, b2=0.999, eps=1e-6, weight_decay=0.01, clip_norm=5.0
    )
    config.schedule.update(name="linear", warmup_steps=500)
    config.train.update(num_steps=3000, batch_size=64, eval_every_steps=500)
    if "65k" in chosen:
        config.optimizer.b2 = 0.98
        config.schedule.update(name="polynomial", power=3.0)
        config.train.update(num_steps=65_000, eval_every_steps=1000)
        config.checkpoint.every_steps = 1000
    if "new_positions" in chosen:
        config.optimizer.groups = new_positions(roberta_length)
    if chosen & {"65k", "new_positions", "as_it_is"}:
        # All there are; with them, a forgotten init_from is an error.
        config.checkpoint.init_from_only = MODEL
    if "short" in chosen:
        config.optimizer.b2 = 0.98
        changes |= recipes.SHORT_LONGFORMER
        config.optimizer.learning_rate = 1e-3
        config.schedule.warmup_steps = 100
        config.train.update(num_steps=1000, batch_size=16, eval_every_steps=250)
    else:
        changes |= {"dtype": "bfloat16"}
    if "as_it_is" in chosen:
        config.train.num_steps = 0
    if "bytes" in chosen:
        changes["vocab_size"] = 320
    if "roberta" in chosen:
        changes.pop("attention_window", None)
        model = RobertaConfig(**changes | {"max_length": roberta_length})
    else:
        model = LongformerConfig(**changes)
    config.model.update(dataclasses.asdict(model))
    config.objective.name = "masked_lm"
    config.data.update(
        source="bytes" if "bytes" in chosen else "builtin",
        vocab_size=model.vocab_size,
        input_length=model.max_length,
    )
    if config.data.source == "builtin":
        longest = min(config.data.max_sentence_tokens, model.max_length)
        config.data.max_sentence_tokens = longest
    return config
